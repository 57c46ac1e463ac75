import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { IStatus } from '../api/schema.js';
import { TOPICS, type IChange, type Topic } from '../tokens.js';
import { Resource } from './resource.js';
import type { IPageVisibility, ITimers } from './timing.js';

/** Events come in flocks; they are gathered this long before anything is fetched. */
const GATHER_MS = 80;

/** While events arrive, one look in this time is enough to find out that they stopped. */
const CALM_MS = 30_000;

export interface IFeedOptions {
  client: KaguraClient;
  timers: ITimers;
  page: IPageVisibility;
  /** Fetches one topic again. */
  refresh: (topic: Topic) => Promise<void>;
  /** Whether anybody looks at a topic. What nobody looks at is fetched once somebody does. */
  wanted: (topic: Topic) => boolean;
}

/**
 * Decides when to fetch what.
 *
 * The event stream says what changed. Because nobody says when the stream is not there (a proxy without web sockets, a
 * server that was started again), the journal's last number is asked for now and then: rows that no event told of mean
 * that it is not, and then the asking becomes as frequent as the settings say. Nothing is asked while the page cannot
 * be seen.
 */
export class Feed {
  constructor(options: IFeedOptions) {
    this._options = options;
    this._status = new Resource(() => options.client.status());
    options.page.onChange(() => {
      if (options.page.visible()) {
        void this._look();
      }
    });
  }

  /** Emitted when the status or the problem with the server is another one. */
  get changed(): ISignal<unknown, void> {
    return this._status.changed;
  }

  get status(): IStatus | null {
    return this._status.value;
  }

  /** Why the server cannot be asked; null while all is well. */
  get problem(): IProblem | null {
    return this._status.problem;
  }

  /** Whether events arrive, as far as one can tell. */
  get streaming(): boolean {
    return this._streaming;
  }

  /** Emitted when `streaming` changed. */
  get streamingChanged(): ISignal<this, boolean> {
    return this._streamingChanged;
  }

  /** How long to wait between two looks while events do not arrive, milliseconds. */
  set pollInterval(milliseconds: number) {
    this._pollInterval = milliseconds;
    if (this._started) {
      this._plan();
    }
  }

  /** Looks for the first time. Until an event has come, the stream is taken to be there. */
  async start(): Promise<void> {
    this._started = true;
    this.touch(...TOPICS);
    await this._look();
  }

  heard(change: IChange): void {
    this._seen = Math.max(this._seen, change.seq);
    this._heardSinceLook = true;
    this._setStreaming(true);
    this.touch(change.topic);
  }

  /** Has topics fetched soon: those that somebody looks at now, the others once somebody does. */
  touch(...topics: readonly Topic[]): void {
    for (const topic of topics) {
      this._stale.add(topic);
    }
    if (this._gathering === null && !this._fetching) {
      this._gathering = this._options.timers.after(GATHER_MS, () => {
        this._gathering = null;
        void this._fetch();
      });
    }
  }

  private async _fetch(): Promise<void> {
    const topics = [...this._stale].filter(topic => this._options.wanted(topic));
    for (const topic of topics) {
      this._stale.delete(topic);
    }
    this._fetching = true;
    try {
      await Promise.all([this._status.refresh(), ...topics.map(topic => this._options.refresh(topic))]);
    } finally {
      this._fetching = false;
    }
    // What came in meanwhile waits for its turn: never two fetches at once, however many events there are.
    if ([...this._stale].some(topic => this._options.wanted(topic))) {
      this.touch();
    }
  }

  private async _look(): Promise<void> {
    const hadProblem = this._status.problem !== null;
    await this._status.refresh();
    const status = this._status.value;
    if (this._status.problem === null && status !== null) {
      const behind = status.seq > this._seen;
      if (behind && this._looked && !this._heardSinceLook) {
        this._setStreaming(false);
      }
      if (behind || hadProblem) {
        this.touch(...TOPICS);
      }
      this._seen = Math.max(this._seen, status.seq);
      this._looked = true;
    }
    this._heardSinceLook = false;
    this._plan();
  }

  private _plan(): void {
    const { timers, page } = this._options;
    if (this._planned !== null) {
      timers.cancel(this._planned);
      this._planned = null;
    }
    const calm = this._streaming && this._status.problem === null;
    this._planned = timers.after(calm ? Math.max(CALM_MS, this._pollInterval) : this._pollInterval, () => {
      this._planned = null;
      if (page.visible()) {
        void this._look();
      }
    });
  }

  private _setStreaming(streaming: boolean): void {
    if (streaming !== this._streaming) {
      this._streaming = streaming;
      this._streamingChanged.emit(streaming);
    }
  }

  private readonly _options: IFeedOptions;
  private readonly _status: Resource<IStatus>;
  private readonly _streamingChanged = new Signal<this, boolean>(this);
  private readonly _stale = new Set<Topic>();
  private _pollInterval = 5000;
  private _started = false;
  private _streaming = true;
  private _seen = 0;
  private _looked = false;
  private _heardSinceLook = false;
  private _gathering: number | null = null;
  private _fetching = false;
  private _planned: number | null = null;
}
