import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { ISettings } from '../api/schema.js';

type Values = Readonly<Record<string, unknown>>;

/** The settings of the person at this server, and what is typed over them. */
export class SettingsModel {
  constructor(client: KaguraClient) {
    this._client = client;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** As the server told them last; null before it has. */
  get told(): ISettings | null {
    return this._told;
  }

  /** What stands in the form. */
  get typed(): Values {
    return this._typed;
  }

  /** Why the server did not do what it was asked; null where it did. */
  get problem(): IProblem | null {
    return this._problem;
  }

  /** What is wrong with some of what was to be saved, by name. */
  get wrong(): Readonly<Record<string, string>> {
    return this._told?.problems ?? {};
  }

  /** Whether all that stands in the form was saved from it. */
  get isSaved(): boolean {
    return this._isSaved && Object.keys(this.changes).length === 0;
  }

  /** What is typed and not saved, by name; null takes a setting out of the file. */
  get changes(): Record<string, unknown> {
    const { values = {}, form = {} } = this._told ?? {};
    const names = Object.keys((form['properties'] ?? {}) as object);
    const plain = (value: unknown) => (value === undefined || value === '' ? null : value);
    const other = names.filter(
      name => JSON.stringify(plain(values[name])) !== JSON.stringify(plain(this._typed[name]))
    );
    return Object.fromEntries(other.map(name => [name, plain(this._typed[name])]));
  }

  type(values: Values): void {
    this._typed = values;
    this._changed.emit();
  }

  /** Fetches them; what is typed is gone. */
  async load(): Promise<void> {
    const answer = await this._client.settings();
    this._problem = answer.ok ? null : answer.problem;
    this._isSaved = false;
    if (answer.ok) {
      this._told = answer.value;
      this._typed = answer.value.values;
    }
    this._changed.emit();
  }

  /** Has what is typed written into the file. Where something is wrong nothing is, and what is typed stays. */
  async save(): Promise<void> {
    if (!this._told) {
      return;
    }
    const answer = await this._client.changeSettings(this._told.version, this.changes);
    this._problem = answer.ok ? null : answer.problem;
    if (answer.ok) {
      this._isSaved = Object.keys(answer.value.problems).length === 0;
      this._told = answer.value;
      this._typed = this._isSaved ? answer.value.values : this._typed;
    }
    this._changed.emit();
  }

  private readonly _client: KaguraClient;
  private readonly _changed = new Signal<this, void>(this);
  private _told: ISettings | null = null;
  private _typed: Values = {};
  private _problem: IProblem | null = null;
  private _isSaved = false;
}
