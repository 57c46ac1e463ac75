import { type INotebookTracker, NotebookActions } from '@jupyterlab/notebook';

/** Runs a line in a new cell below the active one of the notebook in front; whether there is one with a kernel. */
export async function runBelow(tracker: INotebookTracker | null, source: string): Promise<boolean> {
  const panel = tracker?.currentWidget;
  // One that was just opened gets its kernel a moment later.
  await panel?.sessionContext.ready;
  const kernel = panel?.sessionContext.session?.kernel;
  if (!panel || !kernel) {
    return false;
  }
  const { content, sessionContext } = panel;
  const below = content.activeCellIndex + 1;
  // A notebook that has had no agent yet; one that has is told so, which nobody sees.
  await kernel.requestExecute({ code: '%load_ext kagura_kernel', silent: true, store_history: false }).done;
  content.model?.sharedModel.insertCell(below, { cell_type: 'code', source });
  content.deselectAll();
  content.activeCellIndex = below;
  // What it shows grows below it, and would grow out of sight.
  await content.scrollToItem(below, 'start');
  await NotebookActions.run(content, sessionContext);
  return true;
}
