import { Signal, type ISignal } from '@lumino/signaling';
import type { IProblem, Result } from '../api/result.js';

/** Something of the server's that can be fetched again: its last good value, and why there is no newer one. */
export class Resource<T> {
  constructor(fetch: () => Promise<Result<T>>) {
    this._fetch = fetch;
  }

  /** Emitted when the value or the problem is another one. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Null until the first answer. */
  get value(): T | null {
    return this._value;
  }

  /** Null while all is well. The last good value stays beside it. */
  get problem(): IProblem | null {
    return this._problem;
  }

  /**
   * Fetches it again. Calls during a fetch become one more fetch after it, so that what is shown is never older than the
   * last call, and a flood of calls is never a flood of requests.
   */
  refresh(): Promise<void> {
    if (this._running) {
      this._again = true;
      return this._running;
    }
    this._running = this._run().finally(() => {
      this._running = null;
    });
    return this._running;
  }

  private async _run(): Promise<void> {
    do {
      this._again = false;
      const result = await this._fetch();
      if (result.ok) {
        this._set(result.value, null);
      } else {
        this._set(this._value, result.problem);
      }
    } while (this._again);
  }

  private _set(value: T | null, problem: IProblem | null): void {
    const same =
      this._value === value &&
      this._problem?.kind === problem?.kind &&
      this._problem?.message === problem?.message;
    this._value = value;
    this._problem = problem;
    if (!same) {
      this._changed.emit();
    }
  }

  private readonly _fetch: () => Promise<Result<T>>;
  private readonly _changed = new Signal<this, void>(this);
  private _value: T | null = null;
  private _problem: IProblem | null = null;
  private _running: Promise<void> | null = null;
  private _again = false;
}
