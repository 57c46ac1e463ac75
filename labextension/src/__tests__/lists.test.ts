import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KaguraClient } from '../api/client.js';
import { ApprovalsModel } from '../model/approvals.js';
import { LeasesModel } from '../model/leases.js';
import { RunsModel } from '../model/runs.js';
import { anApproval, aRun, FakeServer } from './fakeServer.js';

function withServer() {
  const server = new FakeServer();
  return { server, client: new KaguraClient(server.send) };
}

test('approvals stand by their deadline, and arrive and settle once', async () => {
  const { server, client } = withServer();
  const model = new ApprovalsModel(client);
  const arrived: string[] = [];
  const settled: string[] = [];
  model.arrived.connect((_, found) => arrived.push(...found.map(item => item.id)));
  model.settled.connect((_, ids) => settled.push(...ids));
  server.approvals = [anApproval('late', { deadline_at: '2026-01-01T01:00:00Z' }), anApproval('soon')];
  await model.refresh();
  await model.refresh();
  assert.deepEqual(
    model.pending.map(item => item.id),
    ['soon', 'late']
  );
  assert.deepEqual(arrived.sort(), ['late', 'soon']);
  // Somebody decides in a cell.
  Object.assign(server.approvals[0] ?? {}, { verdict: 'allow', by: 'bob', via: 'cell' });
  await model.refresh();
  assert.deepEqual([settled, model.decided.map(item => item.by)], [['late'], ['bob']]);
});

test('an answer decides once, however often the button is pressed', async () => {
  const { server, client } = withServer();
  server.approvals = [anApproval('app-1')];
  const model = new ApprovalsModel(client);
  await model.refresh();
  await Promise.all([model.decide('app-1', 'allow', 'this run'), model.decide('app-1', 'deny')]);
  assert.equal(server.asked.filter(line => line.startsWith('POST')).length, 1);
  assert.equal(model.pending.length, 0);
  assert.deepEqual([model.decided[0]?.verdict, model.decided[0]?.answer], ['allow', 'this run']);
});

test('when somebody was faster it is said who', async () => {
  const { server, client } = withServer();
  server.approvals = [anApproval('app-1')];
  const model = new ApprovalsModel(client);
  await model.refresh();
  const told: unknown[] = [];
  model.remarked.connect((_, remarked) => told.push(remarked));
  server.faster = 'bob';
  await model.decide('app-1', 'allow');
  assert.equal(model.pending.length, 0);
  const remark = model.remark('app-1');
  assert.ok(remark && 'faster' in remark && remark.faster.by === 'bob' && remark.faster.verdict === 'deny');
  assert.equal(told.length, 1);
});

test('an answer that did not arrive leaves the question where it is', async () => {
  const { server, client } = withServer();
  server.approvals = [anApproval('app-1')];
  const model = new ApprovalsModel(client);
  await model.refresh();
  server.up = false;
  await model.decide('app-1', 'allow');
  assert.equal(model.pending.length, 1);
  assert.equal(model.answering('app-1'), false);
  assert.equal(model.problem?.kind, 'unreachable');
  server.up = true;
  await model.decide('app-1', 'allow');
  assert.equal(model.pending.length, 0);
});

test('ten thousand runs are fetched page by page, without a gap and without a double', async () => {
  const { server, client } = withServer();
  server.runs = Array.from({ length: 10_000 }, (_, number) => aRun(number));
  const model = new RunsModel(client);
  await model.refresh();
  assert.equal(model.items.length, 50);
  while (model.hasMore) {
    await model.more();
  }
  assert.equal(model.items.length, 10_000);
  assert.deepEqual([model.items[0]?.run_id, model.items.at(-1)?.run_id], ['run-9999', 'run-0']);
  assert.equal(new Set(model.items.map(run => run.run_id)).size, 10_000);
});

test('runs that go on stand first, and leave that place when they end', async () => {
  const { server, client } = withServer();
  server.runs = Array.from({ length: 300 }, (_, number) =>
    aRun(number, number === 7 ? { live: true, status: 'running' } : {})
  );
  const model = new RunsModel(client);
  await model.refresh();
  assert.equal(model.items[0]?.run_id, 'run-7');
  server.runs[7] = aRun(7, { status: 'failed' });
  await model.refresh();
  assert.equal(model.items[0]?.run_id, 'run-299');
  assert.equal(model.items.find(run => run.run_id === 'run-7')?.status, 'failed');
});

test('runs that began while nobody looked are caught up with, or the list begins anew', async () => {
  const { server, client } = withServer();
  const add = (from: number, to: number) => {
    for (let number = from; number < to; number++) {
      server.runs.push(aRun(number));
    }
  };
  add(0, 100);
  const model = new RunsModel(client);
  await model.refresh();
  add(100, 400);
  await model.refresh();
  assert.equal(model.items[0]?.run_id, 'run-399');
  assert.ok(model.items.length >= 300);
  add(400, 5000);
  await model.refresh();
  while (model.hasMore) {
    await model.more();
  }
  assert.equal(model.items.length, 5000);
});

test('a search shows what the server finds, and an answer to an earlier one is thrown away', async () => {
  const { server, client } = withServer();
  server.runs = [aRun(1), aRun(2, { task: 'plot' })];
  const model = new RunsModel(client);
  await model.refresh();
  const slow = model.search('task');
  await model.search('plot');
  await slow;
  assert.deepEqual(
    model.items.map(run => run.task),
    ['plot']
  );
  await model.search('');
  assert.equal(model.items.length, 2);
});

test('a run that is told to stop says so until it has ended', async () => {
  const { server, client } = withServer();
  server.runs = [aRun(1, { live: true, status: 'running' })];
  const model = new RunsModel(client);
  await model.refresh();
  const stopped = model.stop('run-1');
  assert.equal(model.stopping('run-1'), true);
  await stopped;
  assert.equal(model.stopping('run-1'), false);
  assert.equal(model.items[0]?.status, 'killed');
});

test('the end of a run that went on is told once, and not that of one that was over before', async () => {
  const { server, client } = withServer();
  server.runs = [aRun(1, { live: true, status: 'running' }), aRun(2)];
  const model = new RunsModel(client);
  const told: string[] = [];
  model.ended.connect((_, ended) => told.push(...ended.map(run => run.run_id)));
  await model.refresh();
  server.runs = [aRun(1), aRun(2)];
  await model.refresh();
  await model.refresh();
  assert.deepEqual(told, ['run-1']);
});

test('what is said to a run is sent as it is, and it is told when nobody listens', async () => {
  const { server, client } = withServer();
  server.runs = [aRun(1, { live: true, status: 'running' })];
  const model = new RunsModel(client);
  assert.equal(await model.say('run-1', 'the second sheet'), true);
  server.listens = false;
  assert.equal(await model.say('run-1', 'hello?'), false);
  assert.equal(model.problem?.message, 'Nobody listens.');
  assert.deepEqual(server.said, [
    ['run-1', 'the second sheet'],
    ['run-1', 'hello?']
  ]);
});

test('a lease is taken back, and a failure is told', async () => {
  const { server, client } = withServer();
  server.leases = [
    { lease_id: 'lea-1', provider: 'github', state: 'live', revocable: true },
    { lease_id: 'lea-2', state: 'gone' }
  ];
  const model = new LeasesModel(client);
  await model.refresh();
  assert.deepEqual(
    model.items.map(lease => lease.lease_id),
    ['lea-1']
  );
  server.up = false;
  await model.revoke('lea-1');
  assert.equal(model.problem?.kind, 'unreachable');
  assert.equal(model.revoking('lea-1'), false);
  server.up = true;
  await model.revoke('lea-1');
  assert.deepEqual([model.items.length, model.problem], [0, null]);
});
