import type { IPageVisibility, ITimers } from './timing.js';

const SECOND = 1000;

/**
 * Counts the seconds for whatever counts up or down: one timer for the whole panel, no word to the server, and none at
 * all while nobody looks.
 */
export class Ticker {
  constructor(timers: ITimers, page: IPageVisibility, offset: () => number) {
    this._timers = timers;
    this._page = page;
    this._offset = offset;
    page.onChange(() => this._wake());
  }

  /** The server's time, in milliseconds since 1970. */
  now(): number {
    return this._timers.now() + this._offset();
  }

  /** Calls at every full second until the result is called. */
  subscribe(call: () => void): () => void {
    this._calls.add(call);
    this._wake();
    return () => {
      this._calls.delete(call);
    };
  }

  private _wake(): void {
    if (this._timer === null && this._calls.size > 0 && this._page.visible()) {
      this._timer = this._timers.after(SECOND - (this.now() % SECOND), () => {
        this._timer = null;
        for (const call of [...this._calls]) {
          call();
        }
        this._wake();
      });
    }
  }

  private readonly _timers: ITimers;
  private readonly _page: IPageVisibility;
  private readonly _offset: () => number;
  private readonly _calls = new Set<() => void>();
  private _timer: number | null = null;
}
