import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem, Result } from '../api/result.js';
import type { IMemoryGrown, ILesson, IMemory, IMemoryCounts, IMemoryInFull } from '../api/schema.js';
import type { IPage, MemoryDeed, Tier } from '../tokens.js';
import { Resource } from './resource.js';

const FIRST_PAGE = 50;
const MOST_AT_ONCE = 500;
/** Lessons that are asked for. */
export const MOST_LESSONS = 50;

/** What is looked for. */
export interface IMemoryFilter {
  readonly words: string;
  /** Empty for any. */
  readonly type: string;
  /** Empty for any. */
  readonly tier: Tier | '';
}

export type MemoryTab = 'memories' | 'lessons';

/** Something of one memory that is fetched when somebody asks for it: it, or why it is not there. */
export type Fetched<T> = { readonly value: T } | { readonly problem: IProblem };

/** A question before something is removed: which memory, and what would go; null while that is on its way. */
export interface IErasing {
  readonly memory: IMemory;
  readonly goes: Fetched<IMemoryGrown> | null;
}

/** What was done to a memory. */
export interface IMemoryDone {
  readonly memory: IMemory;
  readonly deed: MemoryDeed | 'erase';
}

/**
 * Memories and lessons as somebody searches them, the one that is open, and what is done to them.
 *
 * Any process may change a memory, so every refresh fetches as much of the list as there was.
 */
export class MemoriesModel {
  constructor(client: KaguraClient) {
    this._client = client;
    this._page = new Resource(async () => {
      const era = this._era;
      const result = await client.memories({ ...this._asked(), k: this._extent() });
      this._answered = era;
      return result;
    });
    this._lessons = new Resource(() => client.lessons({ k: MOST_LESSONS, q: this._filter.words }));
    this._counts = new Resource(() => client.memoryCounts());
    this._page.changed.connect(() => this._take());
    this._lessons.changed.connect(() => this._changed.emit());
    this._counts.changed.connect(() => this._changed.emit());
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when something was done to a memory from here. */
  get done(): ISignal<this, IMemoryDone> {
    return this._done;
  }

  /** Whether there was an answer to what is looked for. */
  get loaded(): boolean {
    return this._tab === 'lessons' ? this._lessons.value !== null : this._loaded;
  }

  get problem(): IProblem | null {
    return this._failed ?? (this._tab === 'lessons' ? this._lessons.problem : this._page.problem);
  }

  get items(): readonly IMemory[] {
    return this._items;
  }

  get lessons(): readonly ILesson[] {
    return this._lessons.value?.items ?? [];
  }

  /** Null before the first answer. */
  get counts(): IMemoryCounts | null {
    return this._counts.value;
  }

  get filter(): IMemoryFilter {
    return this._filter;
  }

  get tab(): MemoryTab {
    return this._tab;
  }

  /** The memory that is open, as the list had it; null for none. */
  get open(): IMemory | null {
    return this._open;
  }

  /** All of it; null while it is on its way. */
  get full(): Fetched<IMemoryInFull> | null {
    return this._full;
  }

  /** What somebody is asked before it is removed; null while nobody is. */
  get erasing(): IErasing | null {
    return this._erasing;
  }

  /** The memory that was forgotten last from here, which can be undone; null for none. */
  get forgotten(): IMemory | null {
    return this._forgotten;
  }

  busy(memory: IMemory): boolean {
    return this._busy.has(memory.id);
  }

  /** As `Resource.refresh`. */
  async refresh(): Promise<void> {
    const list = this._tab === 'lessons' ? this._lessons : this._page;
    await Promise.all([list.refresh(), this._counts.refresh(), this._fetchOpen()]);
    if (list === this._page && !this._loaded) {
      // An answer that is the same as the last one changes nothing there, and is still the answer to this search.
      this._take();
    }
  }

  async search(changes: Partial<IMemoryFilter>): Promise<void> {
    const wanted = { ...this._filter, ...changes };
    if ((Object.keys(wanted) as (keyof IMemoryFilter)[]).every(name => wanted[name] === this._filter[name])) {
      return;
    }
    this._filter = wanted;
    this._era += 1;
    this._loaded = false;
    this._items = [];
    this._next = null;
    this._changed.emit();
    await this.refresh();
  }

  async show(tab: MemoryTab): Promise<void> {
    if (tab !== this._tab) {
      this._tab = tab;
      this._setOpen(null);
      await this.refresh();
    }
  }

  /** Fetches the next page, if there is one and it is not on its way. */
  async more(): Promise<void> {
    const [before, era] = [this._next, this._era];
    if (before === null || this._fetchingMore) {
      return;
    }
    this._fetchingMore = true;
    try {
      const result = await this._client.memories({ ...this._asked(), k: FIRST_PAGE, before });
      if (era === this._era && before === this._next && result.ok) {
        const known = new Set(this._items.map(memory => memory.id));
        this._items = [...this._items, ...result.value.items.filter(memory => !known.has(memory.id))];
        this._next = result.value.next;
        this._changed.emit();
      }
    } finally {
      this._fetchingMore = false;
    }
  }

  /** How often somebody wanted to promote the memory that is open, once they have it in view. */
  get promoting(): number {
    return this._promoting;
  }

  /** Opens a memory, to promote it perhaps, or closes the one that is open. */
  async setOpen(memory: IMemory | null, promoting = false): Promise<void> {
    this._promoting = promoting ? this._promoting + 1 : 0;
    this._setOpen(memory);
    await this._fetchOpen();
  }

  /** Does something to a memory. Never throws: what went wrong stands in `problem`. */
  async change(memory: IMemory, deed: MemoryDeed): Promise<void> {
    if (await this._act(memory, () => this._client.changeMemory(memory.id, deed))) {
      if (deed === 'forget') {
        this._forgotten = memory;
        this._closeIf(memory);
      } else if (deed === 'restore') {
        this._forgotten = null;
      }
      this._done.emit({ memory, deed });
    }
    await this.refresh();
  }

  /** Asks before a memory is removed with all that came from it: finds out what that is. */
  async askToErase(memory: IMemory): Promise<void> {
    this._erasing = { memory, goes: null };
    this._changed.emit();
    const result = await this._client.grown(memory.id);
    if (this._erasing?.memory === memory) {
      this._erasing = {
        memory,
        goes: result.ok ? { value: result.value } : { problem: result.problem }
      };
      this._changed.emit();
    }
  }

  keep(): void {
    this._erasing = null;
    this._changed.emit();
  }

  /** Removes what was asked about, for good. */
  async erase(): Promise<void> {
    const memory = this._erasing?.memory;
    if (!memory) {
      return;
    }
    this._erasing = null;
    if (await this._act(memory, () => this._client.eraseMemory(memory.id))) {
      this._forgotten = null;
      this._closeIf(memory);
      this._done.emit({ memory, deed: 'erase' });
    }
    await this.refresh();
  }

  private async _act(memory: IMemory, send: () => Promise<Result<null>>): Promise<boolean> {
    if (this._busy.has(memory.id)) {
      return false;
    }
    this._busy.add(memory.id);
    this._failed = null;
    this._changed.emit();
    const result = await send();
    this._busy.delete(memory.id);
    this._failed = result.ok ? null : result.problem;
    this._changed.emit();
    return result.ok;
  }

  private _take(): void {
    const page: IPage<IMemory> | null = this._page.value;
    // An answer to an earlier question is thrown away; the one to this question is on its way.
    if (page !== null && this._answered === this._era) {
      this._loaded ||= this._page.problem === null;
      if (this._page.problem === null) {
        this._items = page.items;
        this._next = page.next;
      }
    }
    this._changed.emit();
  }

  private _setOpen(memory: IMemory | null): void {
    if (memory?.id !== this._open?.id) {
      this._full = null;
      this._erasing = null;
    }
    this._open = memory;
    this._changed.emit();
  }

  private async _fetchOpen(): Promise<void> {
    const open = this._open;
    if (open === null) {
      return;
    }
    const result = await this._client.memory(open.id);
    if (this._open?.id !== open.id) {
      return;
    }
    this._full = result.ok ? { value: result.value } : { problem: result.problem };
    this._open = result.ok ? { ...result.value, score: open.score, why: open.why } : open;
    this._changed.emit();
  }

  private _closeIf(memory: IMemory): void {
    if (this._open?.id === memory.id) {
      this._setOpen(null);
    }
  }

  private _extent(): number {
    return Math.min(MOST_AT_ONCE, Math.max(FIRST_PAGE, this._items.length));
  }

  private _asked(): { q: string; type: string; tier?: Tier } {
    const { words, type, tier } = this._filter;
    return { q: words, type, ...(tier && { tier }) };
  }

  private readonly _client: KaguraClient;
  private readonly _page: Resource<IPage<IMemory>>;
  private readonly _lessons: Resource<IPage<ILesson>>;
  private readonly _counts: Resource<IMemoryCounts>;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _done = new Signal<this, IMemoryDone>(this);
  private readonly _busy = new Set<string>();
  private _filter: IMemoryFilter = { words: '', type: '', tier: '' };
  private _tab: MemoryTab = 'memories';
  private _items: readonly IMemory[] = [];
  private _next: string | null = null;
  /** Counts the searches. */
  private _era = 0;
  /** Which search the last answer is to. */
  private _answered = -1;
  private _loaded = false;
  private _fetchingMore = false;
  private _failed: IProblem | null = null;
  private _open: IMemory | null = null;
  private _full: Fetched<IMemoryInFull> | null = null;
  private _erasing: IErasing | null = null;
  private _forgotten: IMemory | null = null;
  private _promoting = 0;
}
