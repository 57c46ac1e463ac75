import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { ICosts } from '../api/schema.js';
import { Resource } from './resource.js';

/** How many days the chart shows. */
export const COST_DAYS = 7;

/** What runs cost today, in these days, and in the notebook that is looked at. */
export class CostsModel {
  constructor(client: KaguraClient) {
    this._resource = new Resource<ICosts>(() => client.costs(COST_DAYS, this._notebook));
    this._resource.changed.connect(() => this._changed.emit());
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get value(): ICosts | null {
    return this._resource.value;
  }

  get problem(): IProblem | null {
    return this._resource.problem;
  }

  /** The notebook that is looked at, as the server names it; empty when none is. */
  get notebook(): string {
    return this._notebook;
  }

  refresh(): Promise<void> {
    return this._resource.refresh();
  }

  look(notebook: string): boolean {
    const other = notebook !== this._notebook;
    this._notebook = notebook;
    return other;
  }

  private readonly _resource;
  private readonly _changed = new Signal<this, void>(this);
  private _notebook = '';
}
