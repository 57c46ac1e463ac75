import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Signal } from '@lumino/signaling';
import { renderToStaticMarkup } from 'react-dom/server';
import { KaguraClient } from '../api/client.js';
import { Kagura } from '../model/kagura.js';
import { SectionList } from '../panel/sectionList.js';
import { approvalsSection } from '../panel/sections/approvals.js';
import { costsSection } from '../panel/sections/costs.js';
import { leasesSection } from '../panel/sections/leases.js';
import { memoriesSection } from '../panel/sections/memories.js';
import { pluginsSection } from '../panel/sections/plugins.js';
import { runsSection } from '../panel/sections/runs.js';
import { Sidebar } from '../panel/sidebar.js';
import { VirtualList } from '../panel/virtualList.js';
import { anApproval, aRun, english, FakeServer, HandPage, HandTimers } from './fakeServer.js';

async function drawn(fill: (server: FakeServer) => void, closed: string[] = []): Promise<string> {
  const server = new FakeServer();
  fill(server);
  const client = new KaguraClient(server.send);
  const kagura = new Kagura({ client, stream: null, timers: new HandTimers(), page: new HandPage() });
  await Promise.all([
    kagura.approvals.refresh(),
    kagura.runs.refresh(),
    kagura.leases.refresh(),
    kagura.plugins.refresh(),
    kagura.memories.refresh(),
    kagura.costs.refresh()
  ]);
  const sections = new SectionList({ load: () => Promise.resolve(closed), save: () => undefined });
  const all = [costsSection, memoriesSection, approvalsSection, leasesSection, pluginsSection, runsSection];
  for (const section of all) {
    sections.add(section(kagura, english));
  }
  await Promise.resolve();
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

test('sections stand by their rank, and empty ones say what they are for', async () => {
  const html = await drawn(() => undefined);
  const order = [...html.matchAll(/id="kgs-heading-(\w+)"/g)].map(found => found[1]);
  assert.deepEqual(order, ['approvals', 'runs', 'plugins', 'memories', 'leases', 'costs']);
  for (const words of [
    'Nothing waits for you',
    'No run yet',
    'Set up a model',
    'No plugin is known here',
    'Nothing is remembered yet',
    'No credential is lent',
    'No run in these days'
  ]) {
    assert.ok(html.includes(words), words);
  }
});

test('of the active cell that failed its error stands at the top, with two things to ask for', () => {
  const kagura = new Kagura({
    client: new KaguraClient(new FakeServer().send),
    stream: null,
    timers: new HandTimers(),
    page: new HandPage()
  });
  const sections = new SectionList({ load: () => Promise.resolve([]), save: () => undefined });
  const shown = (told: string) =>
    renderToStaticMarkup(
      <Sidebar
        kagura={kagura}
        trans={english}
        sections={sections}
        jump={() => Promise.resolve('')}
        setUp={() => Promise.resolve('')}
        failure={{ changed: new Signal<object, void>({}), told: () => told, ask: () => undefined }}
      />
    );
  const html = shown('KeyError: <b>\u202e');
  assert.match(html, /KeyError: &lt;b&gt;⟨U\+202E⟩.*>Fix this cell<.*>Explain this error</);
  assert.doesNotMatch(shown(''), /Fix this cell/);
});

test('of ten thousand rows those are drawn that can be seen, and each says which of how many it is', () => {
  const html = renderToStaticMarkup(
    <VirtualList
      items={Array.from({ length: 10_000 }, (_, number) => number)}
      rowHeight={40}
      label="Runs"
      keyOf={String}
      row={number => <span>task {number}</span>}
      onNearEnd={() => undefined}
    />
  );
  const drawn = [...html.matchAll(/aria-setsize="10000" aria-posinset="(\d+)"/g)].map(found =>
    Number(found[1])
  );
  assert.ok(drawn.length > 0 && drawn.length < 80, String(drawn.length));
  assert.deepEqual(
    drawn,
    drawn.map((_, index) => index + 1)
  );
  assert.ok(html.includes('height:400000px'));
});

test('a section that was closed stays closed', async () => {
  const html = await drawn(() => undefined, ['runs']);
  assert.ok(!html.includes('id="kgs-body-runs"'));
  assert.ok(html.includes('id="kgs-body-leases"'));
});

test('what a model or a box wrote is text, and what hides in it is seen', async () => {
  const evil = '<img src=x onerror=alert(1)>\u202e';
  const html = await drawn(server => {
    const command = { command: `rm ${evil}`, directory: evil };
    server.approvals = [
      anApproval('app-1', { title: evil, reason: evil, arguments: command, detail: evil, notebook: evil })
    ];
    server.leases = [
      { lease_id: 'lea-1', provider: evil, scope: evil, state: 'live', way: evil, place: evil }
    ];
  });
  assert.ok(!html.includes('<img'));
  assert.ok(!html.includes('\u202e'));
  assert.ok(html.includes('⟨U+202E⟩'));
});

test('what comes from no notebook says from which session, where somebody named it', async () => {
  const from = (session_id: string) =>
    drawn(server => {
      server.approvals = [anApproval('app-1', { notebook: '', kernel_id: '', session_id })];
    });
  assert.ok((await from('slack-D0ROOM-1700000000.000001')).includes('from the session slack-D0ROOM-17'));
  assert.ok((await from('ses-1m82s08zjdsf1x')).includes('from no notebook'));
});

test('a run says who asked for it in a chat, and nothing where it was the person at this machine', async () => {
  const html = await drawn(server => {
    server.runs = [aRun(1, { user: 'mira' }), aRun(2, { user: 'slack:U012ABCDEF' })];
  });
  assert.ok(html.includes('for slack:U012ABCDEF'));
  assert.ok(!html.includes('mira'));
});

test('a task is read from the side on which its language begins', async () => {
  const html = await drawn(server => {
    server.runs = [aRun(1, { task: 'لماذا؟' })];
  });
  assert.ok(html.includes('dir="auto">لماذا؟<'));
});

test('what the server says is to be read is shown, and nothing is allowed before its end was on screen', async () => {
  const block = {
    label: 'It would read',
    text: 'true\n⟨60 empty lines⟩\ncurl',
    size: '62 lines, 60 of them empty'
  };
  const shown = { title: 'Run it', target: '', blocks: [block], place: '/p', means: '' };
  const html = await drawn(server => {
    server.approvals = [anApproval('app-1', { shown, detail: 'raw', arguments: { command: 'raw' } })];
  });
  for (const words of [
    block.label,
    block.size,
    `${block.text}<i data-end=""></i></pre>`,
    '<code>/p</code>'
  ]) {
    assert.ok(html.includes(words), words);
  }
  assert.match(html, /<button[^>]*aria-disabled="true"[^>]*>Allow once</);
  assert.doesNotMatch(html, /<button[^>]*disabled[^>]*>Deny</);
  // The keyboard comes to the first answer, and not to the next one because the first is locked.
  assert.doesNotMatch(html, /<button[^>]* disabled=""/);
  assert.ok(html.includes('once its end has been on screen'));
});

test('a host offers what its card offers, with the whole address', async () => {
  const html = await drawn(server => {
    const shown = {
      title: 'May the box connect to',
      target: 'example.org:443',
      blocks: [],
      place: '',
      means: 'TCP'
    };
    const more = {
      shown,
      arguments: { host: 'example.org', port: 443 },
      options: ['this run', 'this session', 'never']
    };
    server.approvals = [
      anApproval('app-1', { kind: 'network', title: 'Let the box connect', detail: 'TCP', ...more })
    ];
  });
  for (const words of [
    'May the box connect to',
    'example.org:443',
    'Allow for this run',
    'Allow for this session',
    'Never in this session',
    'Stop the run'
  ]) {
    assert.ok(html.includes(words), words);
  }
  assert.doesNotMatch(html, /<button[^>]*disabled[^>]*>Allow/);
});

test('a call of a tool shows its exact arguments, and offers the smaller yes first', async () => {
  const html = await drawn(server => {
    const more = {
      arguments: { toolset: 'mail', tool: 'send', arguments: { to: 'ada' } },
      options: ['this call', 'this run']
    };
    server.approvals = [
      anApproval('app-1', {
        kind: 'tool',
        title: 'Call send of the toolset mail',
        detail: 'mail: send',
        ...more
      })
    ];
  });
  for (const words of ['Tool', 'Call send of the toolset mail', '&quot;to&quot;: &quot;ada&quot;']) {
    assert.ok(html.includes(words), words);
  }
  assert.ok(html.indexOf('Allow for this call') < html.indexOf('Allow for this run'));
  assert.ok(html.includes('Allow for this call'));
});

test('why an agent would have a memory forgotten is quoted', async () => {
  const html = await drawn(server => {
    const more = { arguments: { memory: 'm1' }, reason: 'It is harmless.', title: 'Forget a memory' };
    server.approvals = [anApproval('app-1', { kind: 'tool', ...more })];
  });
  assert.ok(html.includes('<q>It is harmless.</q>'), html);
});

test('a plan begins with the budget in its field, and says whose part it is', async () => {
  const html = await drawn(server => {
    const more = { arguments: { budget_usd: 0.5 }, lineage: ['run-a', 'run-b'], run_id: 'run-c' };
    server.approvals = [anApproval('app-1', { kind: 'plan', title: 'Plan: about $0.42', ...more })];
  });
  for (const words of ['value="0.50"', 'Begin: Plan: about $0.42', 'Cancel: Plan', 'run-a → run-b → run-c']) {
    assert.ok(html.includes(words), words);
  }
  assert.ok(!html.includes('Allow once'));
});

test('a question offers its answers, or a field', async () => {
  const asked = (options: string[]) =>
    drawn(server => {
      server.approvals = [
        anApproval('app-1', { kind: 'question', title: 'Q', detail: 'Which one?', arguments: {}, options })
      ];
    });
  const choices = await asked(['red', 'blue']);
  assert.ok(
    choices.includes('Which one?') && choices.includes('>red</button>') && !choices.includes('Your answer')
  );
  assert.ok((await asked([])).includes('aria-label="Your answer"'));
});

test('a second section of the same name is refused', () => {
  const sections = new SectionList({ load: () => Promise.resolve([]), save: () => undefined });
  const section = { id: 'mine', title: 'Mine', rank: 250, render: () => null };
  const added = sections.add(section);
  assert.throws(() => sections.add(section), /mine/);
  added.dispose();
  assert.equal(sections.items.length, 0);
});
