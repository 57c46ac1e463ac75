import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { PartialJSONObject } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';
import type { IRunCard } from '../api/schema.js';

/** Marks an output that is a live card, beside what it looks like as a finished one. */
export const LIVE_MIME = 'application/vnd.kagura.live+json';

const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';
const STILL_MIME = 'text/html';
const RUN_MIME = 'application/vnd.kagura.run+json';
const LIVE = '.kg-live';
/** One whose kernel is gone says so, and is not brought up to date any more. */
const GONE = `${LIVE}[data-gone]`;

/** How long a live card may take to appear before the finished one is shown in its place. */
const PATIENCE_MS = 400;

/** How often, and how many times, it is looked whether the notebook's widgets have found their kernel meanwhile. */
const AGAIN_MS = 500;
const AGAIN_TIMES = 120;

/** How soon it is asked again whether a run is over whose card is not live, and how seldom in the end. */
const ASK_MS = 1000;
const SELDOM_MS = 10_000;

/**
 * A live card where there is one, and where there is none (without its kernel, in a notebook that was saved in the
 * middle of a run) the finished form that was kept beside it.
 *
 * A live card is brought up to date by its kernel. Its output may be written anew as often as the kernel likes, so that
 * the file holds the latest state: the card that is shown stays as it is, with focus, scroll position and all.
 *
 * A kernel writes a run's finished card into the page that began the run, and into no page that was loaded since. There
 * it takes the live card away. So what was shown last stays, and the finished card comes from the server, into the
 * notebook as well. So it does where the kernel has ended before its run. Where no live card has been since the page was
 * loaded, the server is asked where the run stands, too.
 */
export class LiveOutput extends Panel implements IRenderMime.IRenderer {
  /** `asked` tells that a person is asked something else, or has answered. */
  constructor(
    rendermime: IRenderMimeRegistry,
    card: (runId: string) => Promise<IRunCard | null>,
    asked: ISignal<unknown, void>
  ) {
    super();
    this.addClass('kg-host');
    this._rendermime = rendermime;
    this._cardOf = card;
    this._watch = new MutationObserver(records => {
      if (!this._look() && this._lived) {
        this._keep(records);
      } else if (records.some(record => record.attributeName !== null)) {
        void this._ask();
      }
    });
    asked.connect(this._hear, this);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    const card = JSON.stringify(model.data[WIDGET_MIME] ?? null);
    if (card !== this._card) {
      this._card = card;
      this._watch.observe(this.node, { childList: true, subtree: true, attributeFilter: ['data-gone'] });
      this._host();
      // Not waited for: without a kernel there is no end to it.
      void this._live?.renderModel(model);
    }
    if (this._still) {
      await this._still.renderModel(model);
    } else if (this._timer === undefined && !this._look()) {
      this._timer = window.setTimeout(() => this._settle(), PATIENCE_MS);
    }
  }

  override dispose(): void {
    this._watch.disconnect();
    window.clearTimeout(this._timer);
    window.clearTimeout(this._again);
    window.clearTimeout(this._asking);
    super.dispose();
  }

  /** Whether there is a live card; the finished one leaves as soon as there is. */
  private _look(): boolean {
    if (this.node.querySelector(LIVE) === null) {
      return false;
    }
    this._lived = true;
    window.clearTimeout(this._timer);
    window.clearTimeout(this._again);
    if (!this._isGone()) {
      window.clearTimeout(this._asking);
    }
    this._timer = undefined;
    this._last?.remove();
    this._last = null;
    this._still?.dispose();
    this._still = null;
    return true;
  }

  private _isGone(): boolean {
    return this.node.querySelector(GONE) !== null;
  }

  private _settle(): void {
    this._timer = undefined;
    if (this._model && !this._last && !this._look()) {
      this._still = this._add(STILL_MIME, 'kg-host-still');
      void this._still?.renderModel(this._model);
      this._lookAgain(AGAIN_TIMES);
      void this._ask();
    }
  }

  /** What was shown last stays where the live card is taken away, without what could be pressed. */
  private _keep(records: readonly MutationRecord[]): void {
    const removed = records
      .flatMap(record => [...record.removedNodes])
      .filter(node => node instanceof Element);
    const card = removed.map(node => (node.matches(LIVE) ? node : node.querySelector(LIVE))).find(Boolean);
    if (!card || this.isDisposed) {
      return;
    }
    this._lived = false;
    this._last = card.cloneNode(true) as Element;
    this._last.classList.remove(LIVE.slice(1));
    for (const control of this._last.querySelectorAll('[data-act], .kg-input')) {
      control.setAttribute('disabled', '');
    }
    this.node.append(this._last);
    void this._ask();
  }

  /** A card that is not live would show a question for seconds that is answered. */
  private _hear(): void {
    if (this._still || this._last) {
      this._pause = ASK_MS;
      void this._ask();
    }
  }

  /** Puts the finished card in the place of one that goes on, where the run is over, or else what is newer. */
  private async _ask(): Promise<void> {
    const model = this._model;
    const run = model?.data[RUN_MIME] as { status?: string } | undefined;
    const known = model?.metadata['kagura'] as { run_id?: string } | undefined;
    if (!model || run?.status !== 'running' || !known?.run_id) {
      return;
    }
    const card = await this._cardOf(known.run_id);
    if (this.isDisposed || (this._lived && !this._isGone()) || model !== this._model) {
      return;
    }
    const isOver = card?.over ?? false;
    if (card && (isOver || (this._still && card.data[STILL_MIME] !== model.data[STILL_MIME]))) {
      // What names the live card stays while it may yet appear.
      const widget = isOver ? undefined : model.data[WIDGET_MIME];
      const live = widget ? { [WIDGET_MIME]: widget } : {};
      model.setData({
        data: { ...card.data, ...live } as PartialJSONObject,
        metadata: { ...card.metadata } as PartialJSONObject
      });
    }
    if (!isOver) {
      window.clearTimeout(this._asking);
      this._asking = window.setTimeout(() => void this._ask(), this._pause);
      this._pause = Math.min(2 * this._pause, SELDOM_MS);
    }
  }

  /**
   * After a reload an output may be drawn before the notebook's widgets know their kernel. They come with another
   * renderer then, and bring up to date those in outputs, but not one that lies inside another.
   */
  private _lookAgain(times: number): void {
    this._again = window.setTimeout(() => {
      if (this._model && this._host()) {
        void this._live?.renderModel(this._model);
      }
      if (times > 1) {
        this._lookAgain(times - 1);
      }
    }, AGAIN_MS);
  }

  /** Make the renderer of widgets, or make it anew when there is another kind of it; says whether it did. */
  private _host(): boolean {
    const factory = this._rendermime.getFactory(WIDGET_MIME);
    if (factory === this._factory || !this._model?.data[WIDGET_MIME]) {
      return false;
    }
    this._factory = factory;
    this._live?.dispose();
    this._live = this._add(WIDGET_MIME, 'kg-host-live');
    return true;
  }

  private _add(mimeType: string, className: string): IRenderMime.IRenderer | null {
    // There is none for widgets where their extension is not installed.
    if (!this._rendermime.getFactory(mimeType)) {
      return null;
    }
    const renderer = this._rendermime.createRenderer(mimeType);
    renderer.addClass(className);
    this.addWidget(renderer);
    return renderer;
  }

  private readonly _rendermime: IRenderMimeRegistry;
  private readonly _cardOf: (runId: string) => Promise<IRunCard | null>;
  private readonly _watch: MutationObserver;
  /** Whether a live card was here. */
  private _lived = false;
  private _last: Element | null = null;
  private _asking: number | undefined;
  private _pause = ASK_MS;
  private _model: IRenderMime.IMimeModel | null = null;
  private _live: IRenderMime.IRenderer | null = null;
  private _still: IRenderMime.IRenderer | null = null;
  private _factory: IRenderMime.IRendererFactory | undefined;
  private _timer: number | undefined;
  private _again: number | undefined;
  private _card = '';
}
