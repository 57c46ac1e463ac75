import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderToStaticMarkup } from 'react-dom/server';
import { KaguraClient } from '../api/client.js';
import { Kagura } from '../model/kagura.js';
import type { PluginsModel } from '../model/plugins.js';
import { askedWords, settingsHint } from '../model/pluginWords.js';
import { SectionList } from '../panel/sectionList.js';
import { approvalsSection } from '../panel/sections/approvals.js';
import { pluginsSection } from '../panel/sections/plugins.js';
import { Sidebar } from '../panel/sidebar.js';
import type { IPlugin } from '../api/schema.js';
import type { PluginDeed } from '../tokens.js';
import {
  anApproval,
  anAudit,
  aPlugin,
  english,
  FakeServer,
  HandPage,
  HandTimers,
  settled
} from './fakeServer.js';

const AUDITED = { state: 'audited', risk: 'MEDIUM', audited_at: '2026-01-01T00:00:00Z' };

async function looking(fill: (server: FakeServer) => void) {
  const server = new FakeServer();
  const timers = new HandTimers();
  server.plugins = [aPlugin('greeter', AUDITED)];
  server.audits = { ab: anAudit() };
  fill(server);
  const client = new KaguraClient(server.send);
  const kagura = new Kagura({ client, stream: null, timers, page: new HandPage() });
  kagura.look('/home/ada/project/a.ipynb', 'kernel-1');
  await Promise.all([kagura.plugins.refresh(), kagura.approvals.refresh()]);
  return { server, timers, kagura, model: kagura.plugins };
}

function first(model: PluginsModel): IPlugin {
  const plugin = model.items[0];
  assert.ok(plugin);
  return plugin;
}

function stage(model: PluginsModel): string {
  return model.asked(first(model))?.stage ?? '';
}

function drawn(kagura: Kagura): string {
  const sections = new SectionList({ load: () => Promise.resolve([]), save: () => undefined });
  sections.add(pluginsSection(kagura, english));
  sections.add(approvalsSection(kagura, english));
  return renderToStaticMarkup(
    <Sidebar
      kagura={kagura}
      trans={english}
      sections={sections}
      jump={() => Promise.resolve('')}
      setUp={() => Promise.resolve('')}
    />
  );
}

test('the list is that of the notebook in front and of its kernel', async () => {
  const { server, kagura, model } = await looking(() => undefined);
  assert.ok(server.asked.includes('GET plugins?notebook=%2Fhome%2Fada%2Fproject%2Fa.ipynb&kernel=kernel-1'));
  assert.equal(first(model).risk, 'MEDIUM');
  assert.equal(model.look('/home/ada/project/a.ipynb', 'kernel-1'), false);
  assert.equal(model.look('/home/ada/project/a.ipynb', 'kernel-2'), true);
  assert.ok(drawn(kagura).includes('In the session of a.ipynb'));
});

test('nothing can be enabled or approved whose audit is not in view', async () => {
  const { kagura, model } = await looking(() => undefined);
  assert.ok(!drawn(kagura).includes('Enable: greeter'));
  model.setOpen(first(model), true);
  await settled();
  const html = drawn(kagura);
  for (const words of [
    'aria-label="Enable: greeter"',
    'aria-label="Approve: greeter"',
    'Medium risk',
    'plugin.py:3',
    'os.environ',
    'base_dir=…'
  ]) {
    assert.ok(html.includes(words), words);
  }
});

test('an audit of other files than those of the list is not shown for them', async () => {
  const { server, kagura, model } = await looking(found => {
    found.audits = { ab: anAudit({ content_hash: 'cd' }) };
  });
  model.setOpen(first(model), true);
  await settled();
  assert.ok(!drawn(kagura).includes('Enable: greeter'));
  // The files change: what was audited before is no audit of what is there now.
  server.audits = { ab: anAudit() };
  server.plugins = [aPlugin('greeter', { content_hash: 'ef' })];
  await model.refresh();
  const html = drawn(kagura);
  assert.ok(!html.includes('Enable: greeter') && html.includes('Nobody has audited these files yet'));
});

test('what has a danger in it, is put off or is no plugin offers no way in', async () => {
  for (const changes of [{ dangerous: true }, { quarantine: 'it broke' }, { problem: 'no JSON' }]) {
    const { kagura, model } = await looking(server => {
      server.plugins = [aPlugin('greeter', { ...AUDITED, ...changes })];
    });
    model.setOpen(first(model), true);
    await settled();
    const html = drawn(kagura);
    assert.ok(
      !html.includes('Enable: greeter') && !html.includes('Approve: greeter'),
      JSON.stringify(changes)
    );
  }
  const { kagura, model } = await looking(server => {
    server.audits = { ab: anAudit({ dangerous: true }) };
  });
  model.setOpen(first(model), true);
  await settled();
  assert.ok(!drawn(kagura).includes('Enable: greeter'));
});

test('a word names the files that were shown, and is followed until it was carried out', async () => {
  const { server, timers, model } = await looking(() => undefined);
  const done: string[] = [];
  model.done.connect((_, { plugin, deed }) => done.push(`${deed} ${plugin.state}`));
  await model.tell(first(model), 'enable', "base_dir='./my data'");
  assert.deepEqual(server.told, [
    {
      deed: 'enable',
      plugin: 'greeter',
      body: { session_id: 'ses-1', content_hash: 'ab', configuration: "base_dir='./my data'" }
    }
  ]);
  assert.equal(stage(model), 'asked');
  await model.tell(first(model), 'enable');
  assert.equal(server.told.length, 1);
  server.changePlugin('greeter', { waiting: [] });
  await timers.pass(1100);
  assert.equal(stage(model), 'working');
  server.changePlugin('greeter', { state: 'enabled', changed_at: '2026-01-01T00:00:05Z' });
  await timers.pass(1100);
  assert.deepEqual([done, stage(model)], [['enable enabled'], '']);
  // With nothing under way nobody is asked any more.
  server.asked.length = 0;
  await timers.pass(60_000);
  assert.deepEqual(server.asked, []);
});

test('a plugin whose files have changed is off and asked about, and a newer one can be had', async () => {
  const run = { run_id: 'run-1', status: 'awaiting_approval', live: true };
  const { server, kagura, model } = await looking(server => {
    server.plugins = [aPlugin('greeter', { ...AUDITED, changed: true, audit_run: run, update: '1.1.0' })];
  });
  const asked = drawn(kagura);
  assert.match(asked, /Off: its files have changed/u);
  assert.match(asked, /It is audited anew, and you are asked: see Approvals/u);
  assert.match(asked, /1\.1\.0 can be had/u);
  server.changePlugin('greeter', { state: 'enabled', changed: false, update: '' });
  await model.refresh();
  assert.doesNotMatch(drawn(kagura), /have changed|you are asked|can be had/u);
});

test('a word that nobody hears is told to be late, and is given up once it counts no more', async () => {
  const { timers, model } = await looking(() => undefined);
  await model.tell(first(model), 'audit');
  await timers.pass(9000);
  assert.equal(stage(model), 'asked');
  await timers.pass(2000);
  assert.equal(stage(model), 'late');
  assert.equal(model.busy(first(model)), true);
  await timers.pass(300_000);
  assert.equal(stage(model), '');
});

test('a word that came to nothing says why', async () => {
  const failing = async (changes: Record<string, unknown>, milliseconds: number) => {
    const { server, timers, model } = await looking(() => undefined);
    await model.tell(first(model), 'enable');
    server.changePlugin('greeter', { waiting: [], ...changes });
    await timers.pass(milliseconds);
    const asked = model.asked(first(model));
    assert.ok(asked);
    return { asked, words: askedWords(english, first(model), asked).words, busy: model.busy(first(model)) };
  };
  const run = { run_id: 'run-1', status: 'running', live: true };
  assert.equal((await failing({ audit_run: run }, 1100)).asked.stage, 'working');
  const waiting = await failing({ audit_run: { ...run, status: 'awaiting_approval' } }, 1100);
  assert.equal(waiting.asked.stage, 'waits');
  const error = {
    ...run,
    status: 'failed',
    live: false,
    error_code: 'ERR_PLUGIN_CONFIG',
    error: 'base_dir is missing'
  };
  const failed = await failing({ audit_run: error }, 1100);
  assert.deepEqual([failed.asked.stage, failed.words, failed.busy], ['failed', 'base_dir is missing', false]);
  const broken = await failing(
    { state: 'disabled', changed_at: '2026-01-01T00:00:05Z', why: 'no box' },
    1100
  );
  assert.deepEqual([broken.asked.stage, broken.words], ['failed', 'no box']);
  const refused = await failing(
    { failure: { why: 'nobody knows bas_dir', at: '2026-01-01T00:00:05Z' } },
    1100
  );
  assert.deepEqual([refused.asked.stage, refused.words], ['failed', 'nobody knows bas_dir']);
  const nothing = await failing({}, 12_000);
  assert.ok(
    nothing.asked.stage === 'idle' && nothing.words.includes('%kagura plugin logs greeter') && !nothing.busy
  );
});

test('a refusal of the server is told, and another word can be left at once', async () => {
  const { server, model } = await looking(() => undefined);
  Object.assign(server.session ?? {}, { live: true });
  const plugin = first(model);
  server.session = { session_id: 'ses-1', notebook: '', live: false };
  await model.tell(plugin, 'disable');
  assert.equal(model.asked(plugin)?.stage, 'refused');
  assert.equal(model.asked(plugin)?.problem?.message, 'No process holds the session.');
  assert.equal(model.busy(plugin), false);
});

test('each deed is done when the list says so', async () => {
  const deeds: [PluginDeed, Record<string, unknown>, Record<string, unknown>][] = [
    ['disable', { state: 'enabled' }, { state: 'disabled' }],
    ['approve', {}, { approved: true }],
    ['unapprove', { approved: true }, { approved: false }],
    ['audit', {}, { audited_at: '2026-01-02T00:00:00Z' }]
  ];
  for (const [deed, before, after] of deeds) {
    const { server, timers, model } = await looking(found => found.changePlugin('greeter', before));
    const done: string[] = [];
    model.done.connect((_, told) => done.push(told.deed));
    await model.tell(first(model), deed);
    server.changePlugin('greeter', { waiting: [], ...after });
    await timers.pass(1100);
    assert.deepEqual(done, [deed]);
  }
});

test('a kernel that has begun no run yet is told of, with what to do', async () => {
  const { kagura, model } = await looking(server => {
    server.session = null;
  });
  model.setOpen(first(model), true);
  await settled();
  const html = drawn(kagura);
  assert.ok(html.includes('has begun no run since it started') && html.includes('Run a cell first'));
  assert.ok(!html.includes('Enable: greeter') && !html.includes('Audit: greeter'));
});

test('what a plugin’s author or an auditor wrote is text, and what hides in it is seen', async () => {
  const evil = '<img src=x onerror=alert(1)>\u202e';
  const { kagura, model } = await looking(server => {
    server.plugins = [
      aPlugin(evil, {
        ...AUDITED,
        ...{
          version: evil,
          description: evil,
          modules: [evil],
          why: evil,
          signed_by: evil,
          config: { [evil]: evil }
        },
        permissions: { read: [evil], write: [evil], net: [evil] }
      })
    ];
    server.audits = {
      ab: anAudit({
        ...{ summary: evil, remark: evil, counts: evil },
        facts: [{ name: evil, text: evil }],
        findings: [{ severity: evil, word: evil, message: evil, place: evil, source: evil }],
        injections: [{ text: evil, why: evil }]
      })
    };
  });
  model.setOpen(first(model), true);
  await settled();
  const html = drawn(kagura);
  assert.ok(!html.includes('<img') && !html.includes('\u202e') && html.includes('⟨U+202E⟩'));
});

test('the fields that permissions name are what is proposed to be typed', async () => {
  const { model } = await looking(() => undefined);
  assert.equal(settingsHint(first(model)), 'base_dir=…');
  const permissions = { read: ['./data'], write: [], net: [] };
  assert.equal(settingsHint({ ...first(model), permissions }), 'field=value');
});

test('the question whether a plugin may be used offers what its card offers', async () => {
  const { kagura } = await looking(server => {
    server.approvals = [
      anApproval('app-1', {
        kind: 'plugin',
        title: 'Enable the plugin greeter 1.0.0, risk MEDIUM',
        detail: 'It greets.\nreads: ./data',
        options: ['Enable', 'Approve'],
        arguments: { plugin: 'greeter', content_hash: 'ab' }
      })
    ];
  });
  const html = drawn(kagura);
  for (const words of ['>Enable</button>', '>Approve</button>', '>Deny</button>', 'reads: ./data']) {
    assert.ok(html.includes(words), words);
  }
  assert.ok(!html.includes('The agent gave no reason'));
});
