import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Kagura } from '../model/kagura.js';
import { StatusItem } from '../panel/statusItem.js';
import type { KaguraPanel } from '../panel/widget.js';
import { TRANSLATION_DOMAIN } from '../tokens.js';
import { IPanel } from './panel.js';
import { IKagura } from './service.js';

export const statusBarPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:status-bar',
  description: 'How many approvals wait and what today cost, in the status bar.',
  autoStart: true,
  requires: [IKagura, IPanel],
  optional: [ITranslator, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    kagura: Kagura,
    panel: KaguraPanel,
    translator: ITranslator | null,
    statusBar: IStatusBar | null
  ) => {
    const trans = (translator ?? nullTranslator).load(TRANSLATION_DOMAIN);
    statusBar?.registerStatusItem('kagura-kernel:status', {
      item: new StatusItem(kagura, trans, () => app.shell.activateById(panel.id)),
      align: 'right',
      rank: 90
    });
  }
};
