import type { ICodeCellModel } from '@jupyterlab/cells';
import { type INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { JSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { text } from '../api/decode.js';
import type { IFailure } from '../panel/failedCell.js';
import { isOfCode } from '../model/mending.js';
import { runBelow } from './below.js';

/** The active cell where it shows an error of its code, with its panel; null everywhere else. */
export function failedCell(
  tracker: INotebookTracker | null
): { panel: NotebookPanel; id: string; index: number } | null {
  const panel = tracker?.currentWidget;
  const model = panel?.content.activeCell?.model;
  if (!panel || model?.type !== 'code') {
    return null;
  }
  // Its id becomes a word of a command, and comes from a file that anybody may have written.
  return errorOf(model as ICodeCellModel) && /^[A-Za-z0-9_-]{1,64}$/.test(model.id)
    ? { panel, id: model.id, index: panel.content.activeCellIndex }
    : null;
}

/** The failure of the active cell, for the sidebar. */
export function failureOf(tracker: INotebookTracker | null): IFailure {
  const changed = new Signal<object, void>({});
  followFailures(tracker, () => changed.emit());
  return { changed, told: () => lastLine(tracker), ask: word => void askAbout(tracker, word) };
}

function lastLine(tracker: INotebookTracker | null): string {
  const found = failedCell(tracker);
  if (!found) {
    return '';
  }
  const error = errorOf(found.panel.content.activeCell?.model as ICodeCellModel);
  return `${text(error?.['ename'])}: ${text(error?.['evalue'])}`;
}

function errorOf({ outputs }: ICodeCellModel): JSONObject | undefined {
  const shown = Array.from({ length: outputs.length }, (_, at) => outputs.get(at).toJSON() as JSONObject);
  return shown.find(isOfCode);
}

/** Says so whenever another cell is active, or what the active one shows has changed. */
export function followFailures(tracker: INotebookTracker | null, changed: () => void): void {
  tracker?.activeCellChanged.connect(changed);
  NotebookActions.executed.connect(changed);
}

/** Asks an agent about the error of the active cell, in a new cell below it, where its card stands. */
export async function askAbout(tracker: INotebookTracker | null, word: 'fix' | 'explain'): Promise<void> {
  const found = failedCell(tracker);
  if (!found) {
    return;
  }
  found.panel.content.activeCellIndex = found.index;
  await runBelow(tracker, `%kagura ${word} ${found.id}`);
}
