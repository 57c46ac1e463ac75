import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { DisposableDelegate } from '@lumino/disposable';
import type { Kagura } from '../model/kagura.js';
import { LIVE_MIME, LiveOutput } from '../panel/liveOutput.js';
import { IKagura } from './service.js';

/** Before the renderer of widgets, which shows nothing where a widget's kernel is gone. */
const RANK = -20;

export const liveCardsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:live-cards',
  description: 'Shows live cards, and their finished form where they are not live any more.',
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
          createRenderer: () => new LiveOutput(rendermime, id => kagura.runs.finishedCard(id))
        };
        rendermime.addFactory(factory, RANK);
        return new DisposableDelegate(() => rendermime.removeMimeType(LIVE_MIME));
      }
    });
  }
};
