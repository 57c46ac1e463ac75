import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Panel } from '@lumino/widgets';

/** Marks an output that is a live card, beside what it looks like as a finished one. */
export const LIVE_MIME = 'application/vnd.kagura.live+json';

const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';
const STILL_MIME = 'text/html';
const LIVE = '.kg-live';

/** How long a live card may take to appear before the finished one is shown in its place. */
const PATIENCE_MS = 400;

/** How often, and how many times, it is looked whether the notebook's widgets have found their kernel meanwhile. */
const AGAIN_MS = 500;
const AGAIN_TIMES = 120;

/**
 * A live card where there is one, and where there is none (without its kernel, in a notebook that was saved in the
 * middle of a run) the finished form that was kept beside it.
 *
 * A live card is brought up to date by its kernel. Its output may be written anew as often as the kernel likes, so that
 * the file holds the latest state: the card that is shown stays as it is, with focus, scroll position and all.
 */
export class LiveOutput extends Panel implements IRenderMime.IRenderer {
  constructor(rendermime: IRenderMimeRegistry) {
    super();
    this.addClass('kg-host');
    this._rendermime = rendermime;
    this._watch = new MutationObserver(() => this._look());
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    const card = JSON.stringify(model.data[WIDGET_MIME] ?? null);
    if (card !== this._card) {
      this._card = card;
      this._watch.observe(this.node, { childList: true, subtree: true });
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
    super.dispose();
  }

  /** Whether there is a live card; the finished one leaves as soon as there is. */
  private _look(): boolean {
    if (this.node.querySelector(LIVE) === null) {
      return false;
    }
    this._watch.disconnect();
    window.clearTimeout(this._timer);
    window.clearTimeout(this._again);
    this._timer = undefined;
    this._still?.dispose();
    this._still = null;
    return true;
  }

  private _settle(): void {
    this._timer = undefined;
    if (this._model && !this._look()) {
      this._still = this._add(STILL_MIME, 'kg-host-still');
      void this._still?.renderModel(this._model);
      this._lookAgain(AGAIN_TIMES);
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
    if (factory === this._factory) {
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
  private readonly _watch: MutationObserver;
  private _model: IRenderMime.IMimeModel | null = null;
  private _live: IRenderMime.IRenderer | null = null;
  private _still: IRenderMime.IRenderer | null = null;
  private _factory: IRenderMime.IRendererFactory | undefined;
  private _timer: number | undefined;
  private _again: number | undefined;
  private _card = '';
}
