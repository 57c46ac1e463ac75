import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import { hearChanges, type IEventStream } from '../api/stream.js';
import { TOPICS } from '../tokens.js';
import { ApprovalsModel } from './approvals.js';
import { CostsModel } from './costs.js';
import { Feed } from './feed.js';
import { LeasesModel } from './leases.js';
import { MemoriesModel } from './memories.js';
import { PluginsModel } from './plugins.js';
import { RunsModel } from './runs.js';
import { SettingsModel } from './settings.js';
import { Ticker } from './ticker.js';
import { documentVisibility, pageTimers, type IPageVisibility, type ITimers } from './timing.js';

export interface IKaguraOptions {
  client: KaguraClient;
  stream: IEventStream | null;
  timers?: ITimers;
  page?: IPageVisibility;
}

/** Everything that the panel shows, kept as new as somebody looks at it. */
export class Kagura {
  constructor({ client, stream, timers = pageTimers, page = documentVisibility }: IKaguraOptions) {
    this.approvals = new ApprovalsModel(client);
    this.runs = new RunsModel(client);
    this.leases = new LeasesModel(client);
    this.costs = new CostsModel(client);
    this.plugins = new PluginsModel(client, timers);
    this.memories = new MemoriesModel(client);
    this.settings = new SettingsModel(client);
    this.ticker = new Ticker(timers, page, () => client.clockOffset);
    this.feed = new Feed({
      client,
      timers,
      page,
      refresh: topic => this[topic].refresh(),
      // A question must be noticed with the panel closed as well.
      wanted: topic => topic === 'approvals' || this._shown
    });
    this._stream = stream;
  }

  start(): Promise<void> {
    if (this._stream) {
      hearChanges(this._stream, change => this.feed.heard(change));
    }
    return this.feed.start();
  }

  /** Says whether the panel can be seen. */
  set shown(shown: boolean) {
    const opened = shown && !this._shown;
    const other = shown !== this._shown;
    this._shown = shown;
    if (opened) {
      this.feed.touch();
    }
    if (other) {
      this._shownChanged.emit(shown);
    }
  }

  get shownChanged(): ISignal<this, boolean> {
    return this._shownChanged;
  }

  get shown(): boolean {
    return this._shown;
  }

  /** Says which notebook is looked at, and the id of its kernel; empty for none. */
  look(notebook: string, kernel = ''): void {
    if (this.costs.look(notebook)) {
      this.feed.touch('costs');
    }
    if (this.plugins.look(notebook, kernel)) {
      this.feed.touch('plugins');
    }
  }

  /** Fetches everything again. */
  refresh(): void {
    this.feed.touch(...TOPICS);
  }

  readonly approvals: ApprovalsModel;
  readonly runs: RunsModel;
  readonly leases: LeasesModel;
  readonly costs: CostsModel;
  readonly plugins: PluginsModel;
  readonly memories: MemoriesModel;
  readonly settings: SettingsModel;
  readonly feed: Feed;
  readonly ticker: Ticker;
  private readonly _stream: IEventStream | null;
  private readonly _shownChanged = new Signal<this, boolean>(this);
  private _shown = false;
}
