import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import type { Kagura } from '../model/kagura.js';
import { PANEL_ID, type IOrigin } from '../tokens.js';
import { bellIcon } from './icons.js';
import type { SectionList } from './sectionList.js';
import { APPROVALS_ID } from './sections/approvals.js';
import { Sidebar } from './sidebar.js';
import type { IFailure } from './failedCell.js';
import type { IModels } from './modelPicker.js';

export interface IPanelOptions {
  kagura: Kagura;
  trans: TranslationBundle;
  sections: SectionList;
  jump: (origin: IOrigin) => Promise<string>;
  setUp: () => Promise<string>;
  failure: IFailure;
  openSettings: () => void;
  models: IModels;
}

/** Animation frames that a question which is known has to be drawn in. */
const MOST_FRAMES = 120;

/** The panel as a widget of the shell. Its tab carries the number of approvals that wait. */
export class KaguraPanel extends ReactWidget {
  constructor(options: IPanelOptions) {
    super();
    this._options = options;
    const { kagura, trans } = options;
    this.id = PANEL_ID;
    this.addClass('kgs-panel');
    this.title.icon = bellIcon;
    this.title.caption = trans.__('Agent runs');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Agent runs'));
    kagura.approvals.changed.connect(this._badge, this);
  }

  protected override render() {
    return <Sidebar {...this._options} />;
  }

  /** Moves the focus to the approval after the one that has it, or to the first; `show` brings a hidden panel up. */
  focusNextApproval(show: () => void): void {
    const had = document.activeElement;
    if (!this.isVisible) {
      show();
    }
    this._options.sections.setOpen(APPROVALS_ID, true);
    this._whenDrawn(cards => {
      const at = cards.findIndex(card => card.contains(had));
      const next = cards[(at + 1) % cards.length] ?? this._firstHeading();
      next?.focus();
      next?.scrollIntoView({ block: 'nearest' });
    });
  }

  /** A panel or a section that was just opened is drawn some frames later on a busy machine. */
  private _whenDrawn(call: (cards: readonly HTMLElement[]) => void, frames = MOST_FRAMES): void {
    requestAnimationFrame(() => {
      const cards = [...this.node.querySelectorAll<HTMLElement>('[data-approval]')];
      if (cards.length === 0 && this._options.kagura.approvals.pending.length > 0 && frames > 0) {
        this._whenDrawn(call, frames - 1);
      } else {
        call(cards);
      }
    });
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._options.kagura.shown = true;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._options.kagura.shown = this.isVisible;
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._options.kagura.shown = false;
  }

  protected override onBeforeDetach(message: Message): void {
    this._options.kagura.shown = false;
    super.onBeforeDetach(message);
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    if (!this.node.contains(document.activeElement)) {
      (
        this.node.querySelector<HTMLElement>('[data-approval][tabindex="0"]') ?? this._firstHeading()
      )?.focus();
    }
  }

  private _firstHeading(): HTMLElement | null {
    return this.node.querySelector<HTMLElement>('.kgs-heading button');
  }

  private _badge(): void {
    const { kagura, trans } = this._options;
    const waiting = kagura.approvals.pending.length;
    this.title.caption =
      waiting > 0
        ? trans._n(
            'Agent runs, %1 waits for your answer',
            'Agent runs, %1 wait for your answer',
            waiting,
            waiting
          )
        : trans.__('Agent runs');
    this.title.dataset =
      waiting > 0
        ? { ...this.title.dataset, 'kgs-count': waiting > 99 ? '99+' : String(waiting) }
        : without(this.title.dataset);
    this.title.className = waiting > 0 ? 'kgs-tab-waiting' : '';
  }

  private readonly _options: IPanelOptions;
}

function without(dataset: Readonly<Record<string, string>>): Record<string, string> {
  const { 'kgs-count': _, ...rest } = dataset;
  return rest;
}
