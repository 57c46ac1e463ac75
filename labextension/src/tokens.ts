/**
 * The words of the sidebar: what the server tells, what a section is, and the names others may use.
 *
 * Field names are those of the REST interface, so that a value is the same on both sides.
 */
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { ReactNode } from 'react';

/** The schema of the events that say what to fetch again. */
export const EVENT_SCHEMA = 'https://github.com/kagura-ai/kagura-kernel/events/journal/v1';

/** The domain of the translations. */
export const TRANSLATION_DOMAIN = 'kagura_kernel';

/** The id of the panel in the shell. */
export const PANEL_ID = 'kagura-sidebar';

/** What changed in the journal. */
export type Topic = 'runs' | 'approvals' | 'leases' | 'costs' | 'plugins' | 'memories';

export const TOPICS: readonly Topic[] = ['runs', 'approvals', 'leases', 'costs', 'plugins', 'memories'];

/** One event of the journal, as the server announces it. */
export interface IChange {
  topic: Topic;
  seq: number;
  run_id: string;
  approval_id: string;
}

/** The cell that something came from; empty strings where it came from no notebook. */
export interface IOrigin {
  notebook: string;
  kernel_id: string;
  cell_id: string;
}

export interface IStatus {
  version: string;
  pending: number;
  live: number;
  cost_today_usd: number | null;
  unpriced_today: number;
  seq: number;
}

export interface IRun extends IOrigin {
  run_id: string;
  session_id: string;
  flavour: string;
  status: string;
  task: string;
  brain: string;
  model: string;
  started_at: string;
  duration: number | null;
  cost_usd: number | null;
  budget_usd: number | null;
  changed_files: number;
  error_code: string;
  live: boolean;
  /** Whether its work passed its verification; null where there was none, or not yet. */
  verified: boolean | null;
  /** Whether it was shown memories that are not trusted. */
  untrusted: boolean;
  /** Who asked: a login name; as a chat knows the person, `slack:U012ABCDEF`, where it was one. */
  user: string;
}

/** A card as a notebook's output holds it. */
export interface ICard {
  /** Whether the run is over; while it goes on the rest is empty. */
  over: boolean;
  data: Readonly<Record<string, unknown>>;
  metadata: Readonly<Record<string, unknown>>;
}

export interface IDecision {
  verdict: string;
  by: string;
  via: string;
  answer: string;
}

export type Verdict = 'allow' | 'deny' | 'abort';

/** What is to be read of an approval, as every display shows it: the server says it, so that none says it otherwise. */
export interface IShown {
  readonly title: string;
  /** The host that is asked for; empty for other questions. */
  readonly target: string;
  /** What would be used, in full. */
  readonly blocks: readonly IShownBlock[];
  /** The directory on the host that it would work in; empty where there is none. */
  readonly place: string;
  /** What it would mean, in the words of whoever composed the question; empty where the rest is all. */
  readonly means: string;
}

export interface IShownBlock {
  readonly label: string;
  readonly text: string;
  /** How many lines it has, in words; empty for one. */
  readonly size: string;
}

export interface IApproval extends IOrigin {
  id: string;
  run_id: string;
  session_id: string;
  kind: string;
  title: string;
  detail: string;
  reason: string;
  arguments: Readonly<Record<string, unknown>>;
  options: readonly string[];
  requested_at: string;
  deadline_at: string;
  /** Null while it waits. */
  verdict: string | null;
  by: string;
  via: string;
  decided_at: string | null;
  answer: string;
  /** The runs that the asking one works for, the first one first; empty for a person's own. */
  lineage: readonly string[];
  /** Null once it is decided. */
  shown: IShown | null;
}

export interface ILease {
  lease_id: string;
  run_id: string;
  provider: string;
  scope: string;
  state: string;
  expires_at: string;
  budget_left_seconds: number | null;
  renewals_left: number | null;
  /** How it is used: by a header, a file or variables. */
  way: string;
  place: string;
  revocable: boolean;
}

export interface ISpent {
  usd: number | null;
  runs: number;
  unpriced_runs: number;
}

export interface IDayCost extends ISpent {
  day: string;
  brain: string;
  model: string;
}

export interface IBudget {
  usd_limit: number;
  usd_spent: number | null;
  run_id: string;
}

export interface ICosts {
  today: ISpent;
  notebook: ISpent | null;
  budget: IBudget | null;
  by_day: readonly IDayCost[];
}

export interface IPermissions {
  read: readonly string[];
  write: readonly string[];
  net: readonly string[];
}

/** An audit that the session's process has run, or runs. */
export interface IAuditRun {
  run_id: string;
  status: string;
  live: boolean;
  error_code: string;
  error: string;
}

/** What a session can be told about a plugin. */
export type PluginDeed = 'audit' | 'enable' | 'disable' | 'approve' | 'unapprove';

export interface IPlugin {
  name: string;
  version: string;
  description: string;
  /** `bundled`, `user` or `project`. */
  place: string;
  project: string;
  modules: readonly string[];
  permissions: IPermissions;
  content_hash: string;
  /** In the session that is looked at. */
  state: string;
  why: string;
  changed_at: string | null;
  /** Of the latest audit of exactly these files; null while there is none. */
  risk: string | null;
  dangerous: boolean;
  static_only: boolean;
  audited_at: string | null;
  approved: boolean;
  signed_by: string;
  problem: string;
  quarantine: string;
  config: Readonly<Record<string, string>>;
  opens: IPermissions | null;
  audit_run: IAuditRun | null;
  /** What was last asked for in the session and came to nothing. */
  failure: { why: string; at: string } | null;
  /** What the session was told and has not heard yet. */
  waiting: readonly string[];
}

/** The session whose plugins are shown. */
export interface IPluginSession {
  session_id: string;
  notebook: string;
  live: boolean;
}

export interface IPlugins {
  items: readonly IPlugin[];
  /** Null while the kernel that is looked at has not used kagura. */
  session: IPluginSession | null;
}

export interface IFinding {
  severity: string;
  word: string;
  message: string;
  place: string;
  source: string;
}

export interface IPluginAudit {
  content_hash: string;
  risk: string;
  risk_words: string;
  verdict_words: string;
  counts: string;
  summary: string;
  remark: string;
  facts: readonly { name: string; text: string; good: boolean | null }[];
  findings: readonly IFinding[];
  injections: readonly { text: string; why: string }[];
  dangerous: boolean;
}

/** How far a memory is trusted. */
export type Tier = 'trusted' | 'quarantine';

/** What a person does to a memory that stays. */
export type MemoryDeed = 'promote' | 'demote' | 'pin' | 'unpin' | 'forget' | 'restore';

/** A memory without its text, which may be long. Its words are those of whoever wrote them. */
export interface IMemory {
  id: string;
  summary: string;
  type: string;
  tier: Tier;
  /** `human`, `agent`, `engine` or `import`. */
  author: string;
  by: string;
  run_id: string;
  uri: string;
  tags: readonly string[];
  scope: string;
  at: string;
  expires_at: string | null;
  pinned: boolean;
  promoted_by: string;
  helped: number;
  misled: number;
  /** What matched, the strongest first; empty where nothing was searched for. */
  why: readonly string[];
}

/** A remembered failure. */
export interface ILesson extends IMemory {
  trigger: string;
  /** What was said then, in a box's or somebody's words. */
  said: string;
  tool: string;
  /** Empty while nobody knows one. */
  fix: string;
  task: string;
  /** In how many runs it happened. */
  seen: number;
}

/** A memory that another one is joined to. */
export interface INeighbour extends IMemory {
  edge: string;
  /** Whether the edge leads from the one that was asked for to this one. */
  away: boolean;
}

export interface IMemoryInFull extends IMemory {
  text: string;
  data: Readonly<Record<string, unknown>>;
  neighbours: readonly INeighbour[];
}

/** What would be erased with a memory. */
export interface IGrown {
  /** It first, then what came from it. */
  memories: readonly IMemory[];
  edges: number;
  checkpoints: number;
  runs: readonly string[];
  /** Runs that go on and know one of them. */
  going: readonly string[];
}

export interface IMemoryCounts {
  memories: number;
  quarantined: number;
  forgotten: number;
  /** A path, or an address. */
  where: string;
}

/** One page of a list; `next` is the cursor of the page after it. */
export interface IPage<T> {
  items: readonly T[];
  next: string | null;
}

/**
 * One section of the panel: approvals, runs, plugins, memories, leases, costs, or one of another extension.
 *
 * A further section is one more value of this type, given to `ISections.add`.
 */
export interface ISection {
  /** Unique; it is also what the panel remembers of it. */
  readonly id: string;
  /** Its heading, translated. */
  readonly title: string;
  /** Sections stand in the order of their ranks; ours are 100, 200, 250, 275, 300 and 400. */
  readonly rank: number;
  /** Whether it takes the height that the others leave, as a long list does. */
  readonly grows?: boolean;
  /** Stands behind the heading, such as how many wait; an empty string is nothing. */
  readonly badge?: () => string;
  /** Emitted when the badge is to be read again. */
  readonly changed?: ISignal<unknown, unknown>;
  /** What stands below the heading while the section is open. */
  readonly render: () => ReactNode;
}

/** Where sections are announced, at any time; disposing of the result takes one away again. */
export interface ISections {
  add(section: ISection): IDisposable;
}

/** For other extensions: `import { ISections } from 'kagura-kernel'`. */
export const ISections = new Token<ISections>(
  'kagura-kernel:ISections',
  'The sections of the panel with the agent runs.'
);
