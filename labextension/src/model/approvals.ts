import { Signal, type ISignal } from '@lumino/signaling';
import type { KaguraClient } from '../api/client.js';
import { fields } from '../api/decode.js';
import { readDecision } from '../api/schema.js';
import type { IProblem } from '../api/result.js';
import type { IApproval, IDecision } from '../api/schema.js';
import type { Verdict } from '../tokens.js';
import { Resource } from './resource.js';

const PENDING_LIMIT = 200;
const DECIDED_LIMIT = 10;

/** What is to be said of one approval: somebody was faster, or the answer did not arrive. */
export type Remark = { readonly faster: IDecision } | { readonly problem: IProblem };

export interface IRemarked {
  readonly approval: IApproval;
  readonly remark: Remark;
}

/** The approvals that wait, those that were decided last, and the answering of them. */
export class ApprovalsModel {
  constructor(client: KaguraClient) {
    this._client = client;
    this._pending = new Resource(() => client.approvals('pending', PENDING_LIMIT));
    this._decided = new Resource(() => client.approvals('decided', DECIDED_LIMIT));
    this._pending.changed.connect(this._compare, this);
    this._decided.changed.connect(() => this._changed.emit());
  }

  /** Emitted when anything here is to be shown anew. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with approvals that were not there before. */
  get arrived(): ISignal<this, readonly IApproval[]> {
    return this._arrived;
  }

  /** Emitted with the ids of those that do not wait any more, wherever they were decided. */
  get settled(): ISignal<this, readonly string[]> {
    return this._settled;
  }

  /** Emitted when an answer given here did not count. */
  get remarked(): ISignal<this, IRemarked> {
    return this._remarked;
  }

  /** Whether there was an answer yet. */
  get loaded(): boolean {
    return this._pending.value !== null;
  }

  get problem(): IProblem | null {
    return this._pending.problem;
  }

  /** The nearest deadline first. What was answered here leaves at once. */
  get pending(): readonly IApproval[] {
    return this._waiting;
  }

  /** The newest first. */
  get decided(): readonly IApproval[] {
    return this._decided.value?.items ?? [];
  }

  /** Whether an answer is on its way. */
  answering(id: string): boolean {
    return this._answering.has(id);
  }

  remark(id: string): Remark | null {
    return this._remarks.get(id) ?? null;
  }

  async refresh(): Promise<void> {
    await Promise.all([this._pending.refresh(), this._decided.refresh()]);
  }

  /** Sends an answer. Never throws: what went wrong stands in `remark`. */
  async decide(id: string, verdict: Verdict, answer = ''): Promise<void> {
    if (this._answering.has(id)) {
      return;
    }
    const approval = this._waiting.find(item => item.id === id);
    this._answering.add(id);
    this._remarks.delete(id);
    this._changed.emit();
    const result = await this._client.decide(id, verdict, answer);
    this._answering.delete(id);
    if (result.ok) {
      this._gone.add(id);
    } else {
      const conflict = result.problem.kind === 'conflict';
      const remark = conflict
        ? { faster: readDecision(fields(result.problem.body).decision) }
        : { problem: result.problem };
      if (conflict) {
        this._gone.add(id);
      }
      this._remarks.set(id, remark);
      if (approval) {
        this._remarked.emit({ approval, remark });
      }
    }
    this._compare();
    await this.refresh();
  }

  private _compare(): void {
    const waiting = (this._pending.value?.items ?? [])
      .filter(item => !this._gone.has(item.id))
      .sort((one, other) => (one.deadline_at < other.deadline_at ? -1 : 1));
    const before = new Set(this._waiting.map(item => item.id));
    const now = new Set(waiting.map(item => item.id));
    const arrived = waiting.filter(item => !before.has(item.id));
    const settled = this._waiting.filter(item => !now.has(item.id)).map(item => item.id);
    this._waiting = waiting;
    this._changed.emit();
    if (arrived.length > 0) {
      this._arrived.emit(arrived);
    }
    if (settled.length > 0) {
      this._settled.emit(settled);
    }
  }

  private readonly _client: KaguraClient;
  private readonly _pending;
  private readonly _decided;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _arrived = new Signal<this, readonly IApproval[]>(this);
  private readonly _settled = new Signal<this, readonly string[]>(this);
  private readonly _remarked = new Signal<this, IRemarked>(this);
  private readonly _answering = new Set<string>();
  private readonly _remarks = new Map<string, Remark>();
  /** Known to be decided, though a list that is on its way may still have them. */
  private readonly _gone = new Set<string>();
  private _waiting: readonly IApproval[] = [];
}
