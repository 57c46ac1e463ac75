import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { PartialJSONObject } from '@lumino/coreutils';
import { DisposableDelegate } from '@lumino/disposable';
import type { IRun } from '../api/schema.js';
import type { Kagura } from '../model/kagura.js';
import { unshown } from '../model/mending.js';
import { Answers } from '../panel/answers.js';
import { LIVE_MIME, LiveOutput } from '../panel/liveOutput.js';
import { IKagura, places } from './service.js';

/** Before the renderer of widgets, which shows nothing where a widget's kernel is gone. */
const RANK = -20;

export const liveCardsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:live-cards',
  description: 'Shows live cards and answers, and the finished form of cards that are live no more.',
  autoStart: true,
  requires: [IKagura],
  activate: (app: JupyterFrontEnd, kagura: Kagura) => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => {
        const { rendermime } = panel.content;
        // Not safe: in a notebook that is not trusted the finished form is shown alone, and sanitised.
        const factory = {
          safe: false,
          mimeTypes: [LIVE_MIME],
          createRenderer: () =>
            new LiveOutput(rendermime, id => kagura.runs.card(id), kagura.approvals.changed)
        };
        rendermime.addFactory(factory, RANK);
        const answers = new Answers(panel.content.node, rendermime);
        void opened(panel, kagura);
        return new DisposableDelegate(() => {
          answers.dispose();
          rendermime.removeMimeType(LIVE_MIME);
        });
      }
    });
  }
};

/** Hides what a notebook has saved of its widgets, and gives its cells the cards that they have nothing to show for. */
async function opened(panel: NotebookPanel, kagura: Kagura): Promise<void> {
  const { context } = panel;
  try {
    await context.ready;
  } catch {
    return;
  }
  hideSavedWidgets(panel);
  const runs = await kagura.runs.ofNotebook(places().ofJournal(context.path));
  const cells = [...codeCells(panel)].map(cell => ({ id: cell.id, isEmpty: isEmpty(cell) }));
  const savedAt = Date.parse(context.contentsModel?.last_modified ?? '');
  for (const run of unshown(runs, cells, savedAt)) {
    void show(panel, kagura, run);
  }
}

/**
 * Hides saved widgets from what makes widgets of them, in a notebook that was not trusted when it was read. That looks at
 * no trust, and a widget of anywidget, which our cards are, is code that runs as soon as it is made. The file keeps them.
 */
function hideSavedWidgets(panel: NotebookPanel): void {
  const { model } = panel.context;
  const cells = [...codeCells(panel)];
  if (!cells.length || cells.some(cell => !cell.trusted)) {
    const read = (key: string) => (key === 'widgets' ? null : model.sharedModel.getMetadata(key));
    model.getMetadata = read as typeof model.getMetadata;
  }
}

/** Puts the card of a run into its cell, unless that shows something by then. It follows a run that goes on. */
async function show(panel: NotebookPanel, kagura: Kagura, run: IRun): Promise<void> {
  const card = await kagura.runs.card(run.run_id);
  const cell = [...codeCells(panel)].find(one => one.id === run.cell_id);
  if (card && cell && isEmpty(cell)) {
    // As a cell that has just run is. Nothing but this card is in it.
    cell.trusted = true;
    cell.outputs.add({
      output_type: 'display_data',
      data: { ...card.data } as PartialJSONObject,
      metadata: { ...card.metadata } as PartialJSONObject
    });
  }
}

function* codeCells(panel: NotebookPanel): Iterable<ICodeCellModel> {
  for (const cell of panel.isDisposed ? [] : (panel.content.model?.cells ?? [])) {
    if (cell.type === 'code') {
      yield cell as ICodeCellModel;
    }
  }
}

function isEmpty(cell: ICodeCellModel): boolean {
  return cell.outputs.length === 0 && cell.executionState !== 'running';
}
