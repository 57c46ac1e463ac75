import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IRun } from '../api/schema.js';
import { isOfCode, unshown } from '../model/mending.js';

const SAVED = Date.parse('2026-01-01T12:00:00Z');

function run(id: string, cell: string, seconds: number | null, more: Partial<IRun> = {}): IRun {
  const started_at = '2026-01-01T11:59:30Z';
  return {
    run_id: id,
    cell_id: cell,
    started_at,
    duration: seconds,
    lineage: [],
    ...more
  } as unknown as IRun;
}

function found(runs: IRun[], ...cells: [string, boolean][]): string[] {
  const mendable = cells.map(([id, isEmpty]) => ({ id, isEmpty }));
  return unshown(runs, mendable, SAVED).map(one => one.run_id);
}

test('an empty cell gets the newest run that ended, or goes on, since the file was written', () => {
  const runs = [run('new', 'a', 40), run('old', 'a', 35), run('goes', 'b', null)];
  assert.deepEqual(found(runs, ['a', true], ['b', true]), ['new', 'goes']);
});

test('a cell that shows something, was emptied, or had no run of its own is left alone', () => {
  const child = run('child', 'c', 40, { lineage: ['run'] });
  assert.deepEqual(
    found(
      [run('shown', 'a', 40), run('emptied', 'b', 20), child],
      ['a', false],
      ['b', true],
      ['c', true],
      ['d', true]
    ),
    []
  );
});

test('an agent is offered for what a cell did, and not for what an error of ours says itself', () => {
  const error = (ename: string, line: string) =>
    isOfCode({ output_type: 'error', ename, evalue: '', traceback: [line] });
  assert.equal(error('KeyError', 'Traceback (most recent call last)'), true);
  assert.equal(
    error('CellFailed', '\u001b[1mERR_CELL_FAILED\u001b[0m  The program ended with exit code 1.'),
    true
  );
  // In bold, and in notebooks that were saved by an earlier version in red.
  for (const set of ['1', '31']) {
    assert.equal(error('UsageError', `\u001b[${set}mERR_USAGE\u001b[0m  There is no option --nett.`), false);
  }
  assert.equal(error('RunKilled', 'The run was stopped by a person.'), false);
  assert.equal(isOfCode({ output_type: 'stream', text: 'ERR_USAGE' }), false);
});
