import type { IRun } from '../api/schema.js';

/** A cell that holds code, as far as a card that is missing in it is concerned. */
export interface IMendable {
  readonly id: string;
  readonly isEmpty: boolean;
}

/**
 * The runs whose cells have nothing to show for them: their page was loaded anew, or closed, before it was saved, and a
 * kernel writes a finished card into the page that began the run alone. An empty cell that was saved after the end of its
 * run was emptied by a person.
 *
 * @param runs - Of one notebook, the newest first.
 * @param savedAt - When its file was last written.
 */
export function unshown(runs: readonly IRun[], cells: readonly IMendable[], savedAt: number): IRun[] {
  const newest = new Map<string, IRun>();
  for (const run of runs) {
    if (run.lineage.length === 0 && !newest.has(run.cell_id)) {
      newest.set(run.cell_id, run);
    }
  }
  return cells.flatMap(cell => {
    const run = cell.isEmpty ? newest.get(cell.id) : undefined;
    const over = run?.duration == null ? Infinity : Date.parse(run.started_at) + run.duration * 1000;
    return run && over > savedAt ? [run] : [];
  });
}

/**
 * How an error of ours begins, however its code is set, which says itself what to do; a cell's program that failed is
 * none of these.
 */
const OURS = /^\u001b\[\d+mERR_(?!CELL_FAILED)/;

/** Whether an output is an error of the cell's code, which an agent can look into. */
export function isOfCode(output: Readonly<Record<string, unknown>>): boolean {
  const { output_type: type, ename, traceback } = output;
  const first: unknown = Array.isArray(traceback) ? traceback[0] : '';
  return type === 'error' && ename !== 'RunKilled' && !(typeof first === 'string' && OURS.test(first));
}
