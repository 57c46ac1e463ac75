import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KaguraClient } from '../api/client.js';
import { hearChanges } from '../api/stream.js';
import { EVENT_SCHEMA, type IChange } from '../tokens.js';
import { plain } from './answers.js';
import { anApproval, aRun, FakeServer } from './fakeServer.js';

function value<T>(result: { ok: true; value: T } | { ok: false }): T {
  assert.ok(result.ok);
  return result.value;
}

test('an answer that has not changed is the very same value', async () => {
  const server = new FakeServer();
  server.runs = [aRun(1)];
  const client = new KaguraClient(server.send);
  const first = value(await client.runs({ limit: 50 }));
  assert.equal(first.items[0]?.task, 'task 1');
  assert.equal(value(await client.runs({ limit: 50 })), first);
  server.runs = [aRun(1), aRun(2)];
  assert.notEqual(value(await client.runs({ limit: 50 })), first);
});

test('names and words go into the address encoded', async () => {
  const server = new FakeServer();
  const client = new KaguraClient(server.send);
  await client.kill('../x?y');
  await client.runs({ limit: 5, q: 'a&b=c d' });
  assert.deepEqual(server.asked, ['POST runs/..%2Fx%3Fy/kill', 'GET runs?limit=5&q=a%26b%3Dc+d']);
});

test('no answer, a refusal, a page of HTML and a conflict are values', async () => {
  const server = new FakeServer();
  server.approvals = [anApproval('app-1', { verdict: 'deny', by: 'bob', via: 'cell' })];
  const client = new KaguraClient(server.send);
  const conflict = await client.decide('app-1', 'allow', '');
  assert.ok(!conflict.ok && conflict.problem.kind === 'conflict');
  server.up = false;
  const nothing = await client.status();
  assert.ok(!nothing.ok && nothing.problem.kind === 'unreachable');
  const page = await new KaguraClient(() => Promise.resolve(plain(502, '<html>'))).status();
  assert.ok(!page.ok && page.problem.kind === 'failed' && page.problem.status === 502);
  const odd = await new KaguraClient(() => Promise.resolve(plain(200, '<html>'))).status();
  assert.ok(!odd.ok);
  const refused = await new KaguraClient(() => Promise.resolve(plain(403, '{"message": "No."}'))).status();
  assert.ok(!refused.ok && refused.problem.kind === 'refused' && refused.problem.message === 'No.');
});

test('what is missing or of another type gets a harmless default', async () => {
  const answer = {
    items: [{ run_id: 'run-1', task: 7, cost_usd: '1', live: 'yes' }, { task: 'nameless' }, null]
  };
  const client = new KaguraClient(() => Promise.resolve(plain(200, JSON.stringify(answer))));
  const { items, next } = value(await client.runs({ limit: 1 }));
  assert.equal(items.length, 1);
  assert.deepEqual([items[0]?.task, items[0]?.cost_usd, items[0]?.live, next], ['', null, false, null]);
});

test('the server’s clock counts when it differs by more than an answer takes', async () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  const dated = (date: string) =>
    new KaguraClient(
      () => Promise.resolve(plain(200, '{}', { Date: date })),
      () => now
    );
  const ahead = dated('Thu, 01 Jan 2026 00:01:00 GMT');
  await ahead.status();
  assert.equal(ahead.clockOffset, 60_000);
  const same = dated('Wed, 31 Dec 2025 23:59:59 GMT');
  await same.status();
  assert.equal(same.clockOffset, 0);
});

test('only events of our schema are heard, until it is over', () => {
  const slots = new Set<(sender: unknown, event: unknown) => void>();
  const heard: IChange[] = [];
  const hearing = hearChanges(
    { connect: slot => Boolean(slots.add(slot)), disconnect: slot => slots.delete(slot) },
    change => heard.push(change)
  );
  const emit = (event: unknown) => slots.forEach(slot => slot(null, event));
  emit({ schema_id: EVENT_SCHEMA, topic: 'runs', seq: 3, run_id: 'run-1', approval_id: '' });
  emit({ schema_id: 'https://elsewhere/v1', topic: 'runs', seq: 4 });
  emit({ schema_id: EVENT_SCHEMA, topic: 'weather', seq: 5 });
  emit(null);
  assert.deepEqual(heard, [{ topic: 'runs', seq: 3, run_id: 'run-1', approval_id: '' }]);
  hearing.dispose();
  assert.equal(slots.size, 0);
});
