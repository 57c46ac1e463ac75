import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderToStaticMarkup } from 'react-dom/server';
import { KaguraClient } from '../api/client.js';
import { Kagura } from '../model/kagura.js';
import type { MemoriesModel } from '../model/memories.js';
import { SectionList } from '../panel/sectionList.js';
import { memoriesSection } from '../panel/sections/memories.js';
import { Sidebar } from '../panel/sidebar.js';
import type { IMemory } from '../api/schema.js';
import { aMemory } from './fakeMemory.js';
import { english, FakeServer, HandPage, HandTimers, settled } from './fakeServer.js';

async function looking(fill: (server: FakeServer) => void = () => undefined) {
  const server = new FakeServer();
  server.memory.rows = [
    aMemory('mem-1', { summary: 'The deploy needs the tunnel', tier: 'quarantine' }),
    aMemory('mem-2', { summary: 'Ada likes short reports', pinned: true, author: 'human', by: 'ada' })
  ];
  fill(server);
  const timers = new HandTimers();
  const kagura = new Kagura({
    client: new KaguraClient(server.send),
    stream: null,
    timers,
    page: new HandPage()
  });
  await kagura.memories.refresh();
  server.asked.length = 0;
  return { server, timers, kagura, model: kagura.memories };
}

function named(model: MemoriesModel, id: string): IMemory {
  const memory = model.items.find(item => item.id === id);
  assert.ok(memory);
  return memory;
}

function ids(model: MemoriesModel): string[] {
  return model.items.map(memory => memory.id);
}

function drawn(kagura: Kagura): string {
  const sections = new SectionList({ load: () => Promise.resolve([]), save: () => undefined });
  sections.add(memoriesSection(kagura, english));
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

test('each memory stands with its first line, how far it is trusted, its type and its source', async () => {
  const { kagura } = await looking();
  const html = drawn(kagura);
  for (const words of [
    'The deploy needs the tunnel',
    '>Quarantine<',
    '>Trusted<',
    'the agent claude',
    '>ada<',
    '>Note<',
    '>Pinned<',
    'aria-label="Quarantine: The deploy needs the tunnel"',
    'aria-label="Promote …: The deploy needs the tunnel"',
    'aria-label="Unpin: Ada likes short reports"',
    'aria-label="Forget: Ada likes short reports"'
  ]) {
    assert.ok(html.includes(words), words);
  }
  assert.ok(!html.includes('Promote: Ada likes'));
});

test('words, type and tier narrow the list, and what was found says why', async () => {
  const { server, kagura, model } = await looking();
  await model.search({ words: 'tunnel' });
  assert.deepEqual(ids(model), ['mem-1']);
  assert.ok(drawn(kagura).includes('Found by: tunnel'));
  await model.search({ words: '', tier: 'trusted' });
  assert.deepEqual(ids(model), ['mem-2']);
  await model.search({ tier: '', type: 'lesson' });
  assert.deepEqual(ids(model), []);
  assert.ok(drawn(kagura).includes('Nothing fits'));
  const before = server.asked.length;
  await model.search({ type: 'lesson' });
  assert.equal(server.asked.length, before);
  // The answer is the one that was there before, word for word, and it is shown all the same.
  await model.search({ type: '', tier: 'trusted' });
  await model.search({ tier: '' });
  await model.search({ tier: 'trusted' });
  assert.deepEqual(ids(model), ['mem-2']);
});

test('an answer to an earlier search is thrown away', async () => {
  const { model } = await looking();
  const first = model.search({ words: 'tunnel' });
  const second = model.search({ words: 'reports' });
  await Promise.all([first, second]);
  assert.deepEqual(ids(model), ['mem-2']);
  assert.equal(model.loaded, true);
});

test('the list goes on page by page, and a refresh fetches as much as there is', async () => {
  const { server, model } = await looking(found => {
    found.memory.rows = Array.from({ length: 120 }, (_, number) => aMemory(`mem-${number}`));
  });
  assert.equal(model.items.length, 50);
  await model.more();
  await model.more();
  await model.more();
  assert.equal(model.items.length, 120);
  await model.more();
  server.asked.length = 0;
  await model.refresh();
  assert.ok(server.asked.includes('GET memories?k=120'));
  assert.equal(model.items.length, 120);
});

test('promote, pin and forget are asked for by id, told when they are done, and seen', async () => {
  const { server, kagura, model } = await looking();
  const done: string[] = [];
  model.done.connect((_, { memory, deed }) => done.push(`${deed} ${memory.id}`));
  await model.change(named(model, 'mem-1'), 'promote');
  assert.equal(named(model, 'mem-1').tier, 'trusted');
  await model.change(named(model, 'mem-1'), 'pin');
  await model.change(named(model, 'mem-1'), 'forget');
  assert.deepEqual(ids(model), ['mem-2']);
  assert.deepEqual(done, ['promote mem-1', 'pin mem-1', 'forget mem-1']);
  assert.ok(drawn(kagura).includes('aria-label="Undo forgetting: The deploy needs the tunnel"'));
  assert.ok(model.forgotten);
  await model.change(model.forgotten, 'restore');
  assert.deepEqual(ids(model), ['mem-1', 'mem-2']);
  assert.equal(model.forgotten, null);
  assert.deepEqual(
    server.asked.filter(one => one.startsWith('POST')),
    ['promote', 'pin', 'forget', 'restore'].map(deed => `POST memories/mem-1/${deed}`)
  );
});

test('what could not be done says why, and nothing is told to be done', async () => {
  const { server, kagura, model } = await looking();
  const done: string[] = [];
  model.done.connect((_, { deed }) => done.push(deed));
  const memory = named(model, 'mem-1');
  server.memory.rows = [];
  await model.change(memory, 'promote');
  assert.deepEqual(done, []);
  assert.ok(drawn(kagura).includes('There is no memory mem-1.'));
});

test('erasing asks first, names what goes, and can be left', async () => {
  const { server, kagura, model } = await looking(found => {
    found.memory.rows.push(aMemory('mem-3', { summary: 'Because of the tunnel', came_from: 'mem-1' }));
    found.memory.grown = { edges: 2, checkpoints: 1, runs: ['run-7'], going: ['run-9'] };
  });
  await model.setOpen(named(model, 'mem-1'));
  await model.askToErase(named(model, 'mem-1'));
  const html = drawn(kagura);
  for (const words of [
    'This cannot be undone.',
    '1 other memory that came from it',
    'Because of the tunnel',
    '2 edges between memories',
    '1 checkpoint of a run, which cannot be resumed from there any more',
    'run-7',
    'Runs that go on know it and may write it down again: run-9.',
    'Erase all of it'
  ]) {
    assert.ok(html.includes(words), words);
  }
  model.keep();
  assert.equal(model.erasing, null);
  assert.ok(!server.asked.some(one => one.startsWith('DELETE')));
  await model.askToErase(named(model, 'mem-1'));
  await model.erase();
  assert.ok(server.asked.includes('DELETE memories/mem-1?cascade=true'));
  assert.deepEqual(ids(model), ['mem-2']);
  assert.equal(model.open, null);
});

test('nothing can be erased while it is not known what goes', async () => {
  const { kagura, model } = await looking();
  await model.setOpen(named(model, 'mem-1'));
  const asking = model.askToErase(named(model, 'mem-1'));
  assert.match(drawn(kagura), /<button[^>]*aria-label="Erase it: [^"]*"[^>]*disabled/);
  await asking;
  assert.doesNotMatch(drawn(kagura), /<button[^>]*aria-label="Erase it: [^"]*"[^>]*disabled/);
});

test('a memory that is open shows all that it says and what it is joined to, and stays as it is', async () => {
  const { server, kagura, model } = await looking(found => {
    found.memory.neighbours = [{ ...aMemory('mem-2'), edge: 'prevents', away: true }];
  });
  await model.setOpen(named(model, 'mem-1'));
  const html = drawn(kagura);
  for (const words of ['The text of mem-1', 'Prevents', 'role="group" aria-label="What it says"', 'run-1']) {
    assert.ok(html.includes(words), words);
  }
  server.memory.rows = server.memory.rows.map(row => ({ ...row, tier: 'trusted' }));
  await model.refresh();
  assert.equal(model.open?.tier, 'trusted');
});

test('nothing is promoted before all that it says is in view', async () => {
  const { kagura, model } = await looking(server => {
    server.memory.rows[0] = aMemory('mem-1', { tier: 'quarantine', data: { said: 'what a box said' } });
  });
  const opening = model.setOpen(named(model, 'mem-1'));
  const promote = /<button[^>]*aria-label="Promote: [^"]*"[^>]*>/;
  assert.match(promote.exec(drawn(kagura))?.[0] ?? '', /disabled/);
  await opening;
  assert.doesNotMatch(promote.exec(drawn(kagura))?.[0] ?? 'disabled', /disabled/);
  assert.ok(drawn(kagura).includes('what a box said'));
});

test('lessons say what went wrong and what prevents it', async () => {
  const { server, kagura, model } = await looking(found => {
    found.memory.lessons = [
      {
        ...aMemory('mem-8', { type: 'lesson' }),
        trigger: 'make: no rule',
        said: 'Stop.',
        fix: 'run ./configure first',
        seen: 3
      },
      { ...aMemory('mem-9', { type: 'lesson', summary: 'pytest fails' }), trigger: '', fix: '' }
    ];
  });
  await model.show('lessons');
  const html = drawn(kagura);
  for (const words of [
    'make: no rule',
    '<q>Stop.</q>',
    'run ./configure first',
    '3 runs',
    'pytest fails',
    'not known yet'
  ]) {
    assert.ok(html.includes(words), words);
  }
  assert.ok(html.includes('aria-label="Search the lessons"'));
  server.asked.length = 0;
  await model.search({ words: 'make' });
  assert.ok(server.asked.includes('GET lessons?k=50&q=make'));
});

test('a list of lessons that may have been cut says how to see the others', async () => {
  const { server, kagura, model } = await looking();
  const lessons = Array.from({ length: 50 }, (_, at) => ({
    ...aMemory(`mem-${at}`, { type: 'lesson', summary: 'pytest fails' }),
    trigger: '',
    fix: ''
  }));
  server.memory.lessons = lessons.slice(1);
  await model.show('lessons');
  assert.ok(!drawn(kagura).includes('No more than 50'));
  server.memory.lessons = lessons;
  await model.refresh();
  assert.ok(drawn(kagura).includes('No more than 50 are shown: search for others'));
});

test('a memory that cannot be reached is told with what to do, and the last list stays', async () => {
  const { server, kagura, model } = await looking();
  server.memory.trouble = 'The memory at /x cannot be reached: the disk is full. Make room.';
  await model.refresh();
  const html = drawn(kagura);
  assert.ok(html.includes('the disk is full. Make room.'));
  assert.ok(html.includes('The deploy needs the tunnel'));
  server.memory.trouble = '';
  await model.refresh();
  assert.ok(!drawn(kagura).includes('the disk is full'));
});

test('an empty memory says what it is for', async () => {
  const { kagura } = await looking(server => {
    server.memory.rows = [];
  });
  assert.ok(drawn(kagura).includes('Nothing is remembered yet'));
});

test('what a memory says is text, and what hides in it is seen', async () => {
  const evil = '<img src=x onerror=alert(1)>\u202e';
  const { kagura, model } = await looking(server => {
    const facts = {
      summary: evil,
      type: evil,
      by: evil,
      tags: [evil],
      scope: evil,
      uri: evil,
      run_id: evil,
      tier: evil
    };
    server.memory.rows = [aMemory('mem-1', { ...facts, text: evil, data: { said: evil }, why: [evil] })];
    server.memory.lessons = [{ ...aMemory('mem-1', facts), trigger: evil, said: evil, fix: evil }];
    server.memory.neighbours = [{ ...aMemory('mem-2', facts), edge: evil, away: true }];
    server.memory.grown = { edges: 1, checkpoints: 1, runs: [evil], going: [evil] };
  });
  await model.setOpen(named(model, 'mem-1'));
  await model.askToErase(named(model, 'mem-1'));
  const pages = [drawn(kagura)];
  await model.show('lessons');
  pages.push(drawn(kagura));
  for (const html of pages) {
    assert.ok(!html.includes('<img') && !html.includes('\u202e'));
    assert.ok(html.includes('⟨U+202E⟩'));
    // What nobody can read is not trusted.
    assert.ok(html.includes('>Quarantine<'));
  }
});

test('rows of the journal about memories fetch the list anew while somebody looks', async () => {
  const { server, timers, kagura, model } = await looking();
  kagura.shown = true;
  await kagura.start();
  await timers.pass(100);
  server.memory.rows.push(aMemory('mem-3'));
  server.seq += 1;
  kagura.feed.heard({ topic: 'memories', seq: server.seq, run_id: '', approval_id: '' });
  await timers.pass(100);
  await settled();
  assert.deepEqual(ids(model), ['mem-1', 'mem-2', 'mem-3']);
});

test('an id with a colon is asked for as it is', async () => {
  const { server, model } = await looking(found => {
    found.memory.rows = [aMemory('notes:2026/03')];
  });
  await model.setOpen(named(model, 'notes:2026/03'));
  assert.ok(server.asked.includes('GET memories/notes:2026%2F03'));
});
