import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { Kagura } from '../model/kagura.js';
import { oneLine } from '../model/visible.js';
import { kindWords, lasted, runState } from '../model/words.js';
import type { KaguraPanel } from '../panel/widget.js';
import type { IApproval, IRun } from '../api/schema.js';
import { TRANSLATION_DOMAIN, type IOrigin } from '../tokens.js';
import { Commands } from './commands.js';
import { jumpToCell } from './jump.js';
import { IPanel } from './panel.js';
import { IKagura, places } from './service.js';
import { DEFAULTS, followSettings, type ISettings } from './settings.js';
import { ring } from './sound.js';

export const notificationsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:notifications',
  description: 'Says when a run that is not in view waits for an answer, or a long one has ended.',
  autoStart: true,
  requires: [IKagura, IPanel],
  optional: [ITranslator, ISettingRegistry, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    kagura: Kagura,
    panel: KaguraPanel,
    translator: ITranslator | null,
    registry: ISettingRegistry | null,
    tracker: INotebookTracker | null
  ) => {
    const trans = (translator ?? nullTranslator).load(TRANSLATION_DOMAIN);
    let settings: ISettings = DEFAULTS;
    const shown = new Map<string, () => void>();

    void followSettings(registry, (current, before) => {
      settings = current;
      // Asked only as the answer to somebody's click, never when the page opens.
      const switchedOn = before !== null && !before.desktopNotifications && current.desktopNotifications;
      if (switchedOn && 'Notification' in window && window.Notification.permission === 'default') {
        void window.Notification.requestPermission();
      }
    });

    const show = () => {
      window.focus();
      void app.commands.execute(Commands.nextApproval);
    };

    const tell = (run: IRun) => {
      const long = settings.endSeconds > 0 && (run.duration ?? 0) > settings.endSeconds;
      if (!long || run.lineage.length > 0 || inView(app, tracker, panel, run)) {
        return;
      }
      const { word, tone } = runState(trans, run.status);
      const text = trans.__('%1 after %2: %3', word, lasted(run.duration ?? 0), oneLine(run.task, 90));
      if (settings.notifications) {
        Notification.emit(text, tone === 'good' ? 'success' : 'warning', {
          autoClose: false,
          actions: [
            {
              label: trans.__('Show'),
              callback: () => void jumpToCell(app, tracker, trans, run),
              displayType: 'accent'
            }
          ]
        });
      }
      if (settings.desktopNotifications && !document.hasFocus() && mayNotifyDesktop()) {
        new window.Notification(text, { tag: run.run_id }).onclick = () => window.focus();
      }
    };
    kagura.runs.ended.connect((_, ended) => ended.forEach(tell));

    const announce = (approval: IApproval) => {
      const heading = trans.__('A run waits for your answer');
      const about = `${kindWords(trans, approval.kind).label}: ${oneLine(approval.title, 90)}`;
      const takeBack: (() => void)[] = [];
      if (settings.notifications && !inView(app, tracker, panel, approval)) {
        const id = Notification.emit(`${heading}. ${about}`, 'warning', {
          autoClose: false,
          actions: [{ label: trans.__('Show'), callback: show, displayType: 'accent' }]
        });
        takeBack.push(() => Notification.dismiss(id));
      }
      if (settings.desktopNotifications && !document.hasFocus() && mayNotifyDesktop()) {
        const note = new window.Notification(heading, { body: about, tag: approval.id });
        note.onclick = show;
        takeBack.push(() => note.close());
      }
      shown.set(approval.id, () => takeBack.forEach(call => call()));
    };

    kagura.approvals.arrived.connect((_, arrived) => {
      arrived.forEach(announce);
      if (settings.sound) {
        ring();
      }
    });
    const takeBack = (ids: Iterable<string>) => {
      for (const id of [...ids]) {
        shown.get(id)?.();
        shown.delete(id);
      }
    };
    // Decided anywhere, or seen in the panel, it needs no other sign.
    kagura.approvals.settled.connect((_, settled) => takeBack(settled));
    kagura.shownChanged.connect((_, visible) => {
      if (visible) {
        takeBack(shown.keys());
      }
    });
  }
};

function mayNotifyDesktop(): boolean {
  return 'Notification' in window && window.Notification.permission === 'granted';
}

/** Whether the question can be seen: in the panel, or in its own notebook that is in front. */
function inView(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  panel: KaguraPanel,
  origin: IOrigin
): boolean {
  if (panel.isVisible) {
    return true;
  }
  const current = tracker?.currentWidget;
  return (
    current !== null &&
    current !== undefined &&
    app.shell.currentWidget === current &&
    (current.sessionContext.session?.kernel?.id === origin.kernel_id ||
      current.context.path === places().ofServer(origin.notebook))
  );
}
