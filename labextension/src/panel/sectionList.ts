import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { Signal, type ISignal } from '@lumino/signaling';
import type { ISection, ISections } from '../tokens.js';

/** Remembers between visits which sections are closed. */
export interface IMemory {
  load(): Promise<readonly string[]>;
  save(closed: readonly string[]): void;
}

/** The sections of the panel in their order, and which of them are closed. */
export class SectionList implements ISections {
  constructor(memory: IMemory) {
    this._memory = memory;
    void memory.load().then(closed => {
      this._closed = new Set(closed);
      this._changed.emit();
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get items(): readonly ISection[] {
    return this._items;
  }

  /** Raises: an `Error` when there is a section of this id already. */
  add(section: ISection): IDisposable {
    if (this._items.some(known => known.id === section.id)) {
      throw new Error(`There is a section with the id ${section.id} already.`);
    }
    this._items = [...this._items, section].sort((one, other) => one.rank - other.rank);
    this._changed.emit();
    return new DisposableDelegate(() => {
      this._items = this._items.filter(known => known !== section);
      this._changed.emit();
    });
  }

  isOpen(id: string): boolean {
    return !this._closed.has(id);
  }

  setOpen(id: string, open: boolean): void {
    if (open === this.isOpen(id)) {
      return;
    }
    if (open) {
      this._closed.delete(id);
    } else {
      this._closed.add(id);
    }
    this._memory.save([...this._closed]);
    this._changed.emit();
  }

  private readonly _memory: IMemory;
  private readonly _changed = new Signal<this, void>(this);
  private _items: readonly ISection[] = [];
  private _closed = new Set<string>();
}
