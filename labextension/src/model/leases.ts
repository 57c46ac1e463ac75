import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { ILease } from '../api/schema.js';
import { Resource } from './resource.js';

/** The leases that are held just now, and the taking back of them. */
export class LeasesModel {
  constructor(client: KaguraClient) {
    this._client = client;
    this._resource = new Resource(() => client.leases());
    this._resource.changed.connect(() => {
      const there = new Set(this.items.map(lease => lease.lease_id));
      for (const id of this._revoking) {
        if (!there.has(id)) {
          this._revoking.delete(id);
        }
      }
      this._changed.emit();
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get loaded(): boolean {
    return this._resource.value !== null;
  }

  get problem(): IProblem | null {
    return this._failed ?? this._resource.problem;
  }

  get items(): readonly ILease[] {
    return (this._resource.value?.items ?? []).filter(lease => lease.state !== 'gone');
  }

  /** Leases that were asked back and are still there. */
  revoking(id: string): boolean {
    return this._revoking.has(id);
  }

  refresh(): Promise<void> {
    return this._resource.refresh();
  }

  async revoke(id: string): Promise<void> {
    this._revoking.add(id);
    this._failed = null;
    this._changed.emit();
    const result = await this._client.revoke(id);
    if (!result.ok) {
      this._revoking.delete(id);
      this._failed = result.problem;
      this._changed.emit();
    }
    await this.refresh();
  }

  private readonly _client: KaguraClient;
  private readonly _resource;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _revoking = new Set<string>();
  private _failed: IProblem | null = null;
}
