import { Signal, type ISignal } from '@lumino/signaling';
import type { IPluginOrder, KaguraClient } from '../api/client.js';
import type { IProblem } from '../api/result.js';
import type { IPlugin, IPluginAudit, IPlugins, IPluginSession } from '../api/schema.js';
import type { PluginDeed } from '../tokens.js';
import { Resource } from './resource.js';
import type { ITimers } from './timing.js';

/** A word that nobody has heard by then is told to be late; milliseconds. */
export const LATE_MS = 10_000;

/** How often it is looked what has become of a word: that it was heard is no event. */
const LOOK_MS = 1000;

/** A word counts no longer, and nothing is waited for behind it. */
const LASTS_MS = 300_000;

/** What becomes of a word: on its way, left, not heard in time, at work, waits for a person, ended in nothing. */
export type Stage = 'sending' | 'asked' | 'late' | 'working' | 'waits' | 'idle' | 'failed' | 'refused';

export interface IAsked {
  readonly deed: PluginDeed;
  readonly stage: Stage;
  /** The kernel's reason, of one that failed. */
  readonly reason: string;
  /** The server's, of one that was refused. */
  readonly problem: IProblem | null;
}

interface IWord {
  readonly deed: PluginDeed;
  readonly before: IPlugin;
  readonly session: string;
  /** When it was left; null while it is on its way. */
  readonly at: number | null;
  readonly heardAt: number | null;
  readonly asked: IAsked;
}

/** What can be shown of an audit: it, or why it is not there. */
export type Audit = { readonly audit: IPluginAudit } | { readonly problem: IProblem };

/** The plugins of the session that is looked at, the audits of those that are open, and the words left for it. */
export class PluginsModel {
  constructor(client: KaguraClient, timers: ITimers) {
    this._client = client;
    this._timers = timers;
    this._resource = new Resource<IPlugins>(() => client.plugins(this._notebook, this._kernel));
    this._resource.changed.connect(() => {
      this._follow();
      this._fetchAudits();
      this._changed.emit();
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with a plugin when a word about it was carried out. */
  get done(): ISignal<this, { readonly plugin: IPlugin; readonly deed: PluginDeed }> {
    return this._done;
  }

  /** Whether there was an answer yet. */
  get loaded(): boolean {
    return this._resource.value !== null;
  }

  get problem(): IProblem | null {
    return this._resource.problem;
  }

  get items(): readonly IPlugin[] {
    return this._resource.value?.items ?? [];
  }

  /** Null while the kernel that is looked at has begun no run. */
  get session(): IPluginSession | null {
    return this._resource.value?.session ?? null;
  }

  /** The notebook that is looked at, as the journal names it; empty when none is. */
  get notebook(): string {
    return this._notebook;
  }

  look(notebook: string, kernel: string): boolean {
    const other = notebook !== this._notebook || kernel !== this._kernel;
    this._notebook = notebook;
    this._kernel = kernel;
    return other;
  }

  refresh(): Promise<void> {
    return this._resource.refresh();
  }

  isOpen(plugin: IPlugin): boolean {
    return this._open.has(keyOf(plugin));
  }

  setOpen(plugin: IPlugin, open: boolean): void {
    if (open) {
      this._open.add(keyOf(plugin));
      this._fetchAudits();
    } else {
      this._open.delete(keyOf(plugin));
    }
    this._changed.emit();
  }

  /** The audit of exactly the files that the list tells of; null while it is not there. */
  audit(plugin: IPlugin): Audit | null {
    const kept = this._audits.get(auditKey(plugin));
    return kept && 'audit' in kept && kept.audit.content_hash !== plugin.content_hash ? null : (kept ?? null);
  }

  /** What became of the last word about a plugin; null when there is none to tell of. */
  asked(plugin: IPlugin): IAsked | null {
    const word = this._words.get(keyOf(plugin));
    return word && word.session === this.session?.session_id ? word.asked : null;
  }

  /** Whether a word about a plugin is under way, so that another one has to wait. */
  busy(plugin: IPlugin): boolean {
    return isUnderWay(this.asked(plugin));
  }

  /** Leaves the session a word. Never throws: what went wrong stands in `asked`. */
  async tell(plugin: IPlugin, deed: PluginDeed, configuration = ''): Promise<void> {
    const session = this.session;
    if (!session || this.busy(plugin)) {
      return;
    }
    const key = keyOf(plugin);
    const sending: IWord = {
      deed,
      before: plugin,
      session: session.session_id,
      at: null,
      heardAt: null,
      asked: { deed, stage: 'sending', reason: '', problem: null }
    };
    this._set(key, sending);
    const order: IPluginOrder = { session_id: session.session_id };
    if (deed === 'enable' || deed === 'approve') {
      // Exactly the files whose audit was shown: others are not meant.
      order.content_hash = plugin.content_hash;
    }
    if (configuration.trim()) {
      order.configuration = configuration;
    }
    const result = await this._client.tellPlugin(plugin.name, deed, order);
    if (!result.ok) {
      this._set(key, { ...sending, asked: { ...sending.asked, stage: 'refused', problem: result.problem } });
      await this.refresh();
      return;
    }
    this._set(key, { ...sending, at: this._timers.now(), asked: { ...sending.asked, stage: 'asked' } });
    this._lookLater();
    await this.refresh();
  }

  private _set(key: string, word: IWord): void {
    this._words.set(key, word);
    this._changed.emit();
  }

  private _lookLater(): void {
    if (this._timer !== null || ![...this._words.values()].some(word => isUnderWay(word.asked))) {
      return;
    }
    this._timer = this._timers.after(LOOK_MS, () => {
      this._timer = null;
      // Time alone changes what is to be said, too.
      void this.refresh().then(() => {
        this._follow();
        this._changed.emit();
        this._lookLater();
      });
    });
  }

  /** Takes note of what the list says about words that were left. */
  private _follow(): void {
    if (this._resource.problem) {
      return;
    }
    const now = this._timers.now();
    for (const [key, word] of this._words) {
      const plugin = this.items.find(item => keyOf(item) === key);
      if (word.at === null || !isUnderWay(word.asked) || word.session !== this.session?.session_id) {
        continue;
      }
      if (!plugin || now - word.at > LASTS_MS) {
        this._words.delete(key);
      } else if (!waits(plugin, word.deed) && isDone(word, plugin)) {
        this._words.delete(key);
        this._done.emit({ plugin, deed: word.deed });
      } else {
        this._words.set(key, advanced(word, plugin, now));
      }
    }
  }

  private _fetchAudits(): void {
    for (const plugin of this.items) {
      const key = auditKey(plugin);
      if (!this.isOpen(plugin) || plugin.audited_at === null || this._audits.has(key)) {
        continue;
      }
      if (!this._fetching.has(key)) {
        this._fetching.add(key);
        void this._fetchAudit(plugin, key);
      }
    }
  }

  private async _fetchAudit(plugin: IPlugin, key: string): Promise<void> {
    const result = await this._client.pluginAudit(plugin.name, plugin.content_hash);
    this._fetching.delete(key);
    if (result.ok) {
      this._audits.set(key, { audit: result.value });
    } else if (result.problem.kind !== 'unreachable') {
      this._audits.set(key, { problem: result.problem });
    }
    this._changed.emit();
  }

  private readonly _client: KaguraClient;
  private readonly _timers: ITimers;
  private readonly _resource;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _done = new Signal<this, { readonly plugin: IPlugin; readonly deed: PluginDeed }>(this);
  private readonly _open = new Set<string>();
  private readonly _audits = new Map<string, Audit>();
  private readonly _fetching = new Set<string>();
  private readonly _words = new Map<string, IWord>();
  private _notebook = '';
  private _kernel = '';
  private _timer: number | null = null;
}

/** One plugin among all: two projects may each have one of the same name. */
export function keyOf(plugin: IPlugin): string {
  return [plugin.name, plugin.place, plugin.project].join('\n');
}

function auditKey(plugin: IPlugin): string {
  return [plugin.name, plugin.content_hash, plugin.audited_at].join('\n');
}

function isUnderWay(asked: IAsked | null): boolean {
  return asked !== null && !['idle', 'failed', 'refused'].includes(asked.stage);
}

function isDone({ deed, before }: IWord, plugin: IPlugin): boolean {
  switch (deed) {
    case 'enable':
      return (
        plugin.state === 'enabled' && (before.state !== 'enabled' || plugin.changed_at !== before.changed_at)
      );
    case 'disable':
      return plugin.state !== 'enabled';
    case 'approve':
      return plugin.approved;
    case 'unapprove':
      return !plugin.approved;
    default:
      return plugin.audited_at !== null && plugin.audited_at !== before.audited_at;
  }
}

function waits(plugin: IPlugin, deed: PluginDeed): boolean {
  return plugin.waiting.some(word => word.deed === deed);
}

function advanced(word: IWord, plugin: IPlugin, now: number): IWord {
  const stay = (stage: Stage, reason = ''): IWord => ({ ...word, asked: { ...word.asked, stage, reason } });
  if (waits(plugin, word.deed)) {
    return stay(now - (word.at ?? now) >= LATE_MS ? 'late' : 'asked');
  }
  const heard = word.heardAt === null ? { ...word, heardAt: now } : word;
  const run = plugin.audit_run?.run_id === word.before.audit_run?.run_id ? null : plugin.audit_run;
  const worked = (stage: Stage, reason = ''): IWord => ({
    ...heard,
    asked: { ...heard.asked, stage, reason }
  });
  if (run?.live) {
    return worked(run.status === 'awaiting_approval' ? 'waits' : 'working');
  }
  if (run && run.error_code) {
    return worked('failed', run.error || run.error_code);
  }
  if (plugin.failure && plugin.failure.at !== word.before.failure?.at) {
    return worked('failed', plugin.failure.why);
  }
  const changed = plugin.changed_at !== null && plugin.changed_at !== word.before.changed_at;
  if (word.deed === 'enable' && changed && plugin.state !== 'enabled' && plugin.why) {
    return worked('failed', plugin.why);
  }
  return worked(now - (heard.heardAt ?? now) >= LATE_MS ? 'idle' : 'working');
}
