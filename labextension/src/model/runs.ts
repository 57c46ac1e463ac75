import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { IRunCard, IRun } from '../api/schema.js';
import type { IPage } from '../tokens.js';

const FIRST_PAGE = 50;
const LATER_PAGE = 200;
const LIVE_PAGE = 200;

/** How many runs are asked for one by one once they have ended; after more, the list begins anew. */
const SINGLE_LIMIT = 20;

/** How many pages may lie between the newest run that is known and the newest there is. */
const CATCH_UP_PAGES = 5;

/**
 * The runs, those that go on first, page by page as far as somebody has scrolled.
 *
 * The journal only grows, so a refresh fetches the beginning, those that go on, and those that just ended; the rest
 * stays as it is.
 */
export class RunsModel {
  constructor(client: KaguraClient) {
    this._client = client;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Runs that were known to go on, and are over. */
  get ended(): ISignal<this, readonly IRun[]> {
    return this._endings;
  }

  /** Whether there was an answer yet. */
  get loaded(): boolean {
    return this._loaded;
  }

  get problem(): IProblem | null {
    return this._problem;
  }

  get items(): readonly IRun[] {
    return this._items;
  }

  /** Whether the journal has more than `items`. */
  get hasMore(): boolean {
    return this._next !== null;
  }

  get query(): string {
    return this._query;
  }

  /** The card of a run; null when it cannot be had. */
  async card(id: string): Promise<IRunCard | null> {
    const answer = await this._client.card(id);
    return answer.ok ? answer.value : null;
  }

  /** The newest runs of a notebook, by the journal's name of it; none when they cannot be had. */
  async ofNotebook(notebook: string): Promise<readonly IRun[]> {
    const answer = await this._client.runs({ limit: 100, notebook });
    return answer.ok ? answer.value.items : [];
  }

  /** Runs that were told to stop and still go on. */
  stopping(id: string): boolean {
    return this._stopping.has(id);
  }

  /** Shows only the runs in whose task, brain or notebook the words are, as the server searches. */
  async search(query: string): Promise<void> {
    if (query === this._query) {
      return;
    }
    this._query = query;
    this._begin();
    await this.refresh();
  }

  /** As `Resource.refresh`. */
  refresh(): Promise<void> {
    if (this._running) {
      this._again = true;
      return this._running;
    }
    this._running = this._refreshAll().finally(() => {
      this._running = null;
    });
    return this._running;
  }

  /** Fetches the next page, if there is one and it is not on its way. */
  async more(): Promise<void> {
    const [before, era] = [this._next, this._era];
    if (before === null || this._fetchingMore) {
      return;
    }
    this._fetchingMore = true;
    try {
      const result = await this._client.runs({ limit: LATER_PAGE, before, ...this._asked() });
      if (era !== this._era) {
        return;
      }
      if (result.ok) {
        this._next = result.value.next;
        this._take(result.value.items);
      } else {
        this._problem = result.problem;
        this._changed.emit();
      }
    } finally {
      this._fetchingMore = false;
    }
  }

  /** Says something to a run that goes on; whether its brain will hear it. */
  async say(id: string, text: string): Promise<boolean> {
    const result = await this._client.say(id, text);
    this._problem = result.ok ? null : result.problem;
    this._changed.emit();
    return result.ok;
  }

  async stop(id: string): Promise<void> {
    this._stopping.add(id);
    this._changed.emit();
    const result = await this._client.kill(id);
    if (!result.ok) {
      this._stopping.delete(id);
      this._problem = result.problem;
      this._changed.emit();
    }
    await this.refresh();
  }

  /** One run, from the list or the server; null when there is none. */
  async find(id: string): Promise<IRun | null> {
    const known = this._byId.get(id);
    if (known) {
      return known;
    }
    const result = await this._client.run(id);
    return result.ok ? result.value : null;
  }

  private async _refreshAll(): Promise<void> {
    do {
      this._again = false;
      const era = this._era;
      const [first, live] = await Promise.all([
        this._client.runs({ limit: FIRST_PAGE, ...this._asked() }),
        this._client.runs({ limit: LIVE_PAGE, state: 'live', ...this._asked() })
      ]);
      if (era !== this._era) {
        continue;
      }
      if (!first.ok || !live.ok) {
        const failed = first.ok ? live : first;
        this._problem = failed.ok ? null : failed.problem;
        this._changed.emit();
        continue;
      }
      this._problem = null;
      const newer = await this._reach(first.value);
      const ended = await this._ended([...newer, ...live.value.items]);
      if (era === this._era) {
        this._loaded = true;
        this._take([...newer, ...live.value.items, ...ended]);
      }
    } while (this._again);
  }

  /** Everything from the newest run down to one that is known. When that is too far the list begins anew. */
  private async _reach(first: IPage<IRun>): Promise<readonly IRun[]> {
    const found = [...first.items];
    let last = first;
    for (let pages = 0; !this._touches(last) && last.next !== null; pages++) {
      const result =
        pages < CATCH_UP_PAGES
          ? await this._client.runs({ limit: LATER_PAGE, before: last.next, ...this._asked() })
          : null;
      if (!result?.ok) {
        this._forget();
        break;
      }
      last = result.value;
      found.push(...last.items);
    }
    if (this._byId.size === 0) {
      this._next = last.next;
    }
    return found;
  }

  /** Whether a page leads on to what is known; with nothing known there is nothing to lead to. */
  private _touches(page: IPage<IRun>): boolean {
    return this._byId.size === 0 || page.items.some(run => this._byId.has(run.run_id));
  }

  /** Runs that went on when they were last looked at, and are on no list of those that do. */
  private async _ended(seen: readonly IRun[]): Promise<readonly IRun[]> {
    const known = new Set(seen.map(run => run.run_id));
    const missing = this._items.filter(run => run.live && !known.has(run.run_id));
    if (missing.length > SINGLE_LIMIT) {
      this._forget();
      this._again = true;
      return [];
    }
    const results = await Promise.all(missing.map(run => this._client.run(run.run_id)));
    return results.flatMap(result => (result.ok ? [result.value] : []));
  }

  private _take(runs: readonly IRun[]): void {
    let changed = this._items.length === 0 && this._byId.size === 0;
    const ended = runs.filter(run => !run.live && this._byId.get(run.run_id)?.live);
    for (const run of runs) {
      if (!same(this._byId.get(run.run_id), run)) {
        this._byId.set(run.run_id, run);
        changed = true;
      }
      if (!run.live) {
        this._stopping.delete(run.run_id);
      }
    }
    if (changed) {
      this._items = [...this._byId.values()].sort(byPlace);
    }
    // Without a new run too: that there is no more, or no problem any longer, is worth a look.
    this._changed.emit();
    if (ended.length > 0) {
      this._endings.emit(ended);
    }
  }

  private _begin(): void {
    this._era += 1;
    this._loaded = false;
    this._forget();
    this._changed.emit();
  }

  private _forget(): void {
    this._byId.clear();
    this._items = [];
    this._next = null;
  }

  private _asked(): { q?: string } {
    return this._query ? { q: this._query } : {};
  }

  private readonly _client: KaguraClient;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _endings = new Signal<this, readonly IRun[]>(this);
  private readonly _byId = new Map<string, IRun>();
  private readonly _stopping = new Set<string>();
  private _items: readonly IRun[] = [];
  private _next: string | null = null;
  private _query = '';
  /** Counts the searches: an answer to an earlier one is thrown away. */
  private _era = 0;
  private _loaded = false;
  private _problem: IProblem | null = null;
  private _running: Promise<void> | null = null;
  private _again = false;
  private _fetchingMore = false;
}

/** Those that go on first, then the newest first. */
function byPlace(one: IRun, other: IRun): number {
  if (one.live !== other.live) {
    return one.live ? -1 : 1;
  }
  if (one.started_at !== other.started_at) {
    return one.started_at < other.started_at ? 1 : -1;
  }
  return one.run_id < other.run_id ? 1 : -1;
}

function same(known: IRun | undefined, run: IRun): boolean {
  return (
    known !== undefined &&
    (known === run || (Object.keys(run) as (keyof IRun)[]).every(name => known[name] === run[name]))
  );
}
