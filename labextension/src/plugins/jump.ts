import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { visible } from '../model/visible.js';
import type { IOrigin } from '../tokens.js';
import { places } from './service.js';

/**
 * Opens the notebook that something came from and shows the cell.
 *
 * A notebook that was renamed keeps its kernel, so the kernel's session is asked before the path that the journal noted.
 *
 * Returns a sentence when it could not be done, otherwise nothing.
 */
export async function jumpToCell(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  trans: TranslationBundle,
  origin: IOrigin
): Promise<string> {
  const path = (await sessionPath(app, origin.kernel_id)) || places().ofServer(origin.notebook);
  if (!path) {
    return trans.__('This run came from no notebook, so there is no cell to go to.');
  }
  let panel = tracker?.find(widget => widget.context.path === path) ?? null;
  if (!panel) {
    try {
      // Notebook 7 opens another tab of the browser and returns nothing.
      const opened: unknown = await app.commands.execute('docmanager:open', { path });
      panel = tracker?.find(widget => widget === opened) ?? null;
    } catch {
      return trans.__('%1 could not be opened. It may have been moved or deleted since.', visible(path));
    }
  }
  return panel ? showCell(app, panel, trans, origin.cell_id) : '';
}

async function showCell(
  app: JupyterFrontEnd,
  panel: NotebookPanel,
  trans: TranslationBundle,
  cellId: string
): Promise<string> {
  app.shell.activateById(panel.id);
  try {
    await panel.context.ready;
  } catch {
    return trans.__(
      '%1 could not be opened. It may have been moved or deleted since.',
      visible(panel.context.path)
    );
  }
  await panel.revealed;
  const index = panel.content.widgets.findIndex(cell => cell.model.id === cellId);
  if (index < 0) {
    return trans.__('The cell is not in %1 any more.', visible(panel.context.path));
  }
  panel.content.deselectAll();
  panel.content.activeCellIndex = index;
  await panel.content.scrollToItem(index, 'smart');
  panel.content.activate();
  return '';
}

async function sessionPath(app: JupyterFrontEnd, kernelId: string): Promise<string> {
  const { sessions } = app.serviceManager;
  if (!kernelId) {
    return '';
  }
  await sessions.ready.catch(() => undefined);
  for (const session of sessions.running()) {
    if (session.kernel?.id === kernelId && session.type === 'notebook') {
      return session.path;
    }
  }
  return '';
}
