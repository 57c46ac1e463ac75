import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KaguraClient } from '../api/client.js';
import type { IEventStream } from '../api/stream.js';
import { Kagura } from '../model/kagura.js';
import { Ticker } from '../model/ticker.js';
import { EVENT_SCHEMA } from '../tokens.js';
import { anApproval, aRun, FakeServer, HandPage, HandTimers } from './fakeServer.js';

class HandStream implements IEventStream {
  private readonly _slots = new Set<(sender: unknown, event: unknown) => void>();
  connect(slot: (sender: unknown, event: unknown) => void): boolean {
    return Boolean(this._slots.add(slot));
  }
  disconnect(slot: (sender: unknown, event: unknown) => void): boolean {
    return this._slots.delete(slot);
  }
  tell(topic: string, seq: number): void {
    this._slots.forEach(slot =>
      slot(null, { schema_id: EVENT_SCHEMA, topic, seq, run_id: '', approval_id: '' })
    );
  }
}

async function started() {
  const server = new FakeServer();
  const timers = new HandTimers();
  const page = new HandPage();
  const stream = new HandStream();
  const kagura = new Kagura({ client: new KaguraClient(server.send), stream, timers, page });
  kagura.feed.pollInterval = 5000;
  await kagura.start();
  await timers.pass(100);
  return { server, timers, page, stream, kagura };
}

test('an event fetches its list, and a flood of them is a handful of requests', async () => {
  const { server, timers, stream, kagura } = await started();
  server.approvals = [anApproval('app-1')];
  server.asked.length = 0;
  for (let number = 0; number < 5000; number++) {
    stream.tell('approvals', ++server.seq);
  }
  await timers.pass(100);
  assert.equal(kagura.approvals.pending.length, 1);
  assert.ok(server.asked.length <= 4, server.asked.join(', '));
});

test('lists that nobody sees are not fetched until somebody does', async () => {
  const { server, timers, stream, kagura } = await started();
  server.runs = [aRun(1)];
  stream.tell('runs', ++server.seq);
  await timers.pass(100);
  assert.equal(kagura.runs.items.length, 0);
  kagura.shown = true;
  await timers.pass(100);
  assert.equal(kagura.runs.items.length, 1);
});

test('a stream that is silent while rows are written is noticed, and the server is asked instead', async () => {
  const { server, timers, stream, kagura } = await started();
  kagura.shown = true;
  await timers.pass(100);
  server.approvals = [anApproval('app-1')];
  server.seq += 1;
  await timers.pass(31_000);
  assert.equal(kagura.feed.streaming, false);
  assert.equal(kagura.approvals.pending.length, 1);
  // From now on within the seconds of the settings.
  server.approvals.push(anApproval('app-2'));
  server.seq += 1;
  await timers.pass(5_200);
  assert.equal(kagura.approvals.pending.length, 2);
  stream.tell('runs', ++server.seq);
  assert.equal(kagura.feed.streaming, true);
});

test('while events come the server is asked for its number twice a minute and for nothing else', async () => {
  const { server, timers } = await started();
  server.asked.length = 0;
  await timers.pass(60_000);
  assert.deepEqual(server.asked, ['GET status', 'GET status']);
});

test('a hidden page asks for nothing, and looks at once when it is seen again', async () => {
  const { server, timers, page, kagura } = await started();
  await page.show(false);
  server.asked.length = 0;
  server.approvals = [anApproval('app-1')];
  server.seq += 1;
  await timers.pass(600_000);
  assert.deepEqual(server.asked, []);
  await page.show(true);
  await timers.pass(100);
  assert.equal(kagura.approvals.pending.length, 1);
});

test('a server that was away is told of, and all is fetched again once it is back', async () => {
  const { server, timers, kagura } = await started();
  server.up = false;
  await timers.pass(31_000);
  assert.equal(kagura.feed.problem?.kind, 'unreachable');
  server.approvals = [anApproval('app-1')];
  server.up = true;
  await timers.pass(6_000);
  assert.equal(kagura.feed.problem, null);
  assert.equal(kagura.approvals.pending.length, 1);
});

test('clocks tick without the server, at full seconds, and only while somebody looks', async () => {
  const timers = new HandTimers();
  const page = new HandPage();
  const ticker = new Ticker(timers, page, () => 250);
  const ticks: number[] = [];
  const stop = ticker.subscribe(() => ticks.push(ticker.now()));
  await timers.pass(2100);
  assert.deepEqual(ticks, [1000, 2000]);
  await page.show(false);
  await timers.pass(60_000);
  assert.ok(ticks.length <= 3);
  await page.show(true);
  const before = ticks.length;
  await timers.pass(1000);
  assert.equal(ticks.length, before + 1);
  stop();
  await timers.pass(5000);
  assert.ok(ticks.length <= before + 2);
});
