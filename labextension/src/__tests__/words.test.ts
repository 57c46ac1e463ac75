import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costByDay, costByModel } from '../model/costSums.js';
import {
  clockFace,
  decisionWords,
  lasted,
  money,
  problemWords,
  roundMoney,
  exactMoney,
  runState,
  span
} from '../model/words.js';
import { english } from './fakeServer.js';

test('figures read as on the cards', () => {
  assert.deepEqual([0, 42, 3723].map(clockFace), ['0:00', '0:42', '1:02:03']);
  assert.deepEqual([0.04, 0.3, 42, 185, 7620].map(lasted), [
    '40 ms',
    '0.3 s',
    '42 s',
    '3 min 05 s',
    '2 h 07 min'
  ]);
  assert.deepEqual([40, 720, 3900, 7200].map(span), ['40 s', '12 min', '1 h 05 min', '2 h']);
  assert.deepEqual([null, 0, 0.0132, 2].map(money), ['', '$0.00', '$0.0132', '$2.00']);
  assert.deepEqual([0, 0.001, 0.5].map(roundMoney), ['$0.00', '<$0.01', '$0.50']);
  assert.deepEqual([1, 0.5, 0.004, 0.0249].map(exactMoney), ['1.00', '0.50', '0.004', '0.0249']);
});

test('a state of a newer server is shown as it is', () => {
  assert.deepEqual(runState(english, 'awaiting_approval'), { word: 'Waiting for you', tone: 'ask' });
  assert.deepEqual(runState(english, 'dreaming'), { word: 'dreaming', tone: 'warn' });
});

test('a decision says by whom and where', () => {
  const by = { by: 'ada', via: 'cell', answer: '' };
  assert.equal(
    decisionWords(english, 'network', { verdict: 'allow', ...by }).words,
    'Allowed by ada, in the cell'
  );
  assert.equal(
    decisionWords(english, 'question', { verdict: 'allow', ...by }).words,
    'Answered by ada, in the cell'
  );
  assert.equal(
    decisionWords(english, 'network', { verdict: 'deny', ...by, via: 'policy' }).words,
    'Denied by policy'
  );
  assert.match(
    decisionWords(english, 'network', { verdict: 'timeout', ...by }).words,
    /nobody answered in time/
  );
});

test('a problem is a sentence, the server’s own where it has one', () => {
  const problem = { kind: 'failed' as const, status: 500, code: '', message: '', body: null };
  assert.match(problemWords(english, problem), /\(500\)/);
  assert.equal(
    problemWords(english, { ...problem, message: 'The journal is \u202elocked.' }),
    'The journal is ⟨U+202E⟩locked.'
  );
});

test('costs are summed by day, days without a run included, and by model', () => {
  const row = { brain: 'claude', model: 'm', runs: 1, unpriced_runs: 0 };
  const rows = [
    { ...row, day: '2026-01-03', usd: 1 },
    { ...row, day: '2026-01-03', usd: 0.5, model: 'n' },
    { ...row, day: '2026-01-01', usd: 2 },
    { ...row, day: '2026-01-01', usd: null, model: 'free' }
  ];
  const now = Date.parse('2026-01-03T10:00:00Z');
  assert.deepEqual(costByDay(rows, now, 3), [
    { day: '2026-01-01', usd: 2 },
    { day: '2026-01-02', usd: 0 },
    { day: '2026-01-03', usd: 1.5 }
  ]);
  assert.deepEqual(
    costByModel(rows).map(sum => [sum.model, sum.runs, sum.usd]),
    [
      ['m', 2, 3],
      ['n', 1, 0.5],
      ['free', 1, null]
    ]
  );
});
