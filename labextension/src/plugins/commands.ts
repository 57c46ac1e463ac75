import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { text } from '../api/decode.js';
import type { Kagura } from '../model/kagura.js';
import { bellIcon, explainIcon, fixIcon } from '../panel/icons.js';
import { SettingsPanel } from '../panel/settingsForm.js';
import type { KaguraPanel } from '../panel/widget.js';
import { TRANSLATION_DOMAIN } from '../tokens.js';
import { askAbout, failedCell, followFailures } from './failed.js';
import { jumpToCell } from './jump.js';
import { IPanel } from './panel.js';
import { IKagura } from './service.js';

/** The names under which other extensions and shortcuts reach what the panel can do. */
export const Commands = {
  open: 'kagura:open-panel',
  toggle: 'kagura:toggle-panel',
  nextApproval: 'kagura:next-approval',
  refresh: 'kagura:refresh',
  settings: 'kagura:settings',
  goToCell: 'kagura:go-to-cell',
  stop: 'kagura:stop-run',
  fixCell: 'kagura:fix-cell',
  explainCell: 'kagura:explain-cell'
} as const;

const SETTINGS_TAB = 'kagura-settings-tab';

/** Shells that can fold the side away: JupyterLab's and Notebook's. */
interface IFoldingShell {
  collapseLeft?(): void;
  collapseRight?(): void;
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:commands',
  description: 'Commands of kagura-kernel, in the palette and the launcher.',
  autoStart: true,
  requires: [IKagura, IPanel],
  optional: [ITranslator, ICommandPalette, ILauncher, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    kagura: Kagura,
    panel: KaguraPanel,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    tracker: INotebookTracker | null
  ) => {
    const trans = (translator ?? nullTranslator).load(TRANSLATION_DOMAIN);
    const { commands, shell } = app;
    const runOf = (args: ReadonlyPartialJSONObject) => kagura.runs.find(text(args['runId']));

    commands.addCommand(Commands.open, {
      label: trans.__('Agent runs'),
      caption: trans.__('Approvals, runs, plugins, leases and costs'),
      icon: bellIcon,
      execute: () => shell.activateById(panel.id)
    });
    commands.addCommand(Commands.toggle, {
      label: trans.__('Show agent runs'),
      caption: trans.__('Show or hide the panel with approvals, runs, plugins, leases and costs'),
      isToggleable: true,
      isToggled: () => panel.isVisible,
      execute: () => {
        if (panel.isVisible) {
          fold(shell as IFoldingShell, panel);
        } else {
          shell.activateById(panel.id);
        }
      }
    });
    commands.addCommand(Commands.nextApproval, {
      label: trans.__('Go to the next approval'),
      execute: () => panel.focusNextApproval(() => shell.activateById(panel.id))
    });
    commands.addCommand(Commands.refresh, {
      label: trans.__('Refresh agent runs'),
      execute: () => kagura.refresh()
    });
    commands.addCommand(Commands.settings, {
      label: trans.__('kagura: Settings'),
      caption: trans.__('What agent runs may do, spend and reach: the settings that kernels read'),
      execute: () => {
        const widgets = ['main', 'left'].flatMap(area => [...shell.widgets(area)]);
        if (!widgets.some(one => one.id === SETTINGS_TAB)) {
          const tab = new MainAreaWidget({ content: new SettingsPanel(kagura.settings, trans) });
          tab.id = SETTINGS_TAB;
          tab.toolbar.hide();
          shell.add(tab, 'main');
          // In Notebook the notebook has all of that.
          if (!tab.isAttached) {
            shell.add(tab, 'left');
          }
        }
        shell.activateById(SETTINGS_TAB);
      }
    });
    commands.addCommand(Commands.goToCell, {
      label: trans.__('Go to the cell of a run'),
      execute: async args => {
        const run = await runOf(args);
        return run ? jumpToCell(app, tracker, trans, run) : trans.__('There is no such run.');
      }
    });
    commands.addCommand(Commands.stop, {
      label: trans.__('Stop a run'),
      execute: async args => {
        const run = await runOf(args);
        if (run?.live) {
          await kagura.runs.stop(run.run_id);
        }
      }
    });
    for (const [command, word, label, icon] of [
      [Commands.fixCell, 'fix', trans.__('Fix this cell'), fixIcon],
      [Commands.explainCell, 'explain', trans.__('Explain this error'), explainIcon]
    ] as const) {
      commands.addCommand(command, {
        label,
        caption: trans.__('%1: an agent looks at the error, in a sandbox', label),
        icon,
        isVisible: () => failedCell(tracker) !== null,
        isEnabled: () => failedCell(tracker) !== null,
        execute: () => askAbout(tracker, word)
      });
    }
    followFailures(tracker, () => {
      commands.notifyCommandChanged(Commands.fixCell);
      commands.notifyCommandChanged(Commands.explainCell);
    });
    panel.disposed.connect(() => commands.notifyCommandChanged(Commands.toggle));

    const category = trans.__('Agent runs');
    for (const command of [
      Commands.toggle,
      Commands.nextApproval,
      Commands.refresh,
      Commands.settings,
      Commands.fixCell,
      Commands.explainCell
    ]) {
      palette?.addItem({ command, category });
    }
    launcher?.add({ command: Commands.open, category: trans.__('Other'), rank: 10 });
  }
};

function fold(shell: IFoldingShell, panel: KaguraPanel): void {
  const onLeft = panel.node.closest('#jp-left-stack, #jp-left-stack-parent, .jp-mod-left') !== null;
  if (onLeft) {
    shell.collapseLeft?.();
  } else {
    shell.collapseRight?.();
  }
}
