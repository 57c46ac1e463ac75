/**
 * What the server answers: types, and readers of its JSON, made by `dev/server_api.py`.
 */
import {
  both,
  fields,
  flag,
  flagOrNull,
  listOf,
  mapOf,
  nothing,
  number,
  numberOrNull,
  object,
  oneOf,
  orNull,
  otherwise,
  text,
  textOrNull
} from './decode.js';

/** The numbers of a status bar. */
export interface IStatus {
  /** Of kagura-kernel. */
  readonly version: string;
  /** Approvals that wait. */
  readonly pending: number;
  /** Runs that go on. */
  readonly live: number;
  /** USD; null is unknown. */
  readonly cost_today_usd: number | null;
  /** Today's runs of unknown price, which stand beside the sum. */
  readonly unpriced_today: number;
  /** The number of the journal's newest row. */
  readonly seq: number;
}

export const readStatus = object<IStatus>({
  version: text,
  pending: number,
  live: number,
  cost_today_usd: numberOrNull,
  unpriced_today: number,
  seq: number
});

/** A run. */
export interface IRun {
  readonly run_id: string;
  readonly session_id: string;
  readonly flavour: string;
  readonly status: string;
  /** Whether it goes on. */
  readonly live: boolean;
  /** What was asked, its first 500 characters. */
  readonly task: string;
  /** Empty for a cell's own code. */
  readonly brain: string;
  readonly model: string;
  /** The back-end of its box; empty before there is one. */
  readonly box: string;
  readonly started_at: string;
  /** Seconds; null while it goes on. */
  readonly duration: number | null;
  readonly tool_calls: number;
  /** USD; null is unknown. */
  readonly cost_usd: number | null;
  /** Its limit; null is none. */
  readonly budget_usd: number | null;
  readonly changed_files: number;
  /** Why it did not end well; empty otherwise. */
  readonly error_code: string;
  readonly user: string;
  /** The process that runs it. */
  readonly owner: string;
  readonly project: string;
  /** The notebook that asked, as its server names it; empty elsewhere. */
  readonly notebook: string;
  readonly kernel_id: string;
  readonly cell_id: string;
  /** The runs that it works for, the first one first; empty for a person's own. */
  readonly lineage: readonly string[];
  /** The run that it goes on from; empty for a fresh one. */
  readonly resumes: string;
  /** Whether its work passed its verification; null where there was none, or not yet. */
  readonly verified: boolean | null;
  /** Whether it was shown memories that are not trusted. */
  readonly untrusted: boolean;
}

export const readRun = object<IRun>({
  run_id: text,
  session_id: text,
  flavour: text,
  status: text,
  live: flag,
  task: text,
  brain: text,
  model: text,
  box: text,
  started_at: text,
  duration: numberOrNull,
  tool_calls: number,
  cost_usd: numberOrNull,
  budget_usd: numberOrNull,
  changed_files: number,
  error_code: text,
  user: text,
  owner: text,
  project: text,
  notebook: text,
  kernel_id: text,
  cell_id: text,
  lineage: listOf(text),
  resumes: text,
  verified: flagOrNull,
  untrusted: flag
});

/** A page of runs. */
export interface IRuns {
  readonly items: readonly IRun[];
  /** What the next page is asked for with; null on the last one. */
  readonly next: string | null;
}

export const readRuns = object<IRuns>({
  items: listOf(readRun, 'run_id'),
  next: textOrNull
});

/** The card of a run, as a notebook keeps it. */
export interface IRunCard {
  /** Whether the run is over, or its process gone. Else the card says where it stands. */
  readonly over: boolean;
  /** What the card shows, by media type, as in a notebook's outputs. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export const readRunCard = object<IRunCard>({
  over: flag,
  data: fields,
  metadata: fields
});

/** A part of what an approval would use. */
export interface IShownBlock {
  readonly label: string;
  readonly text: string;
  /** How many lines it has, in words; empty for one. */
  readonly size: string;
}

export const readShownBlock = object<IShownBlock>({
  label: text,
  text: text,
  size: text
});

/** What is to be read of an approval before it is answered, as every display shows it. */
export interface IShown {
  readonly title: string;
  /** The host that is asked for; empty for other questions. */
  readonly target: string;
  /** What would be used, in full; each has to be on screen to its end before it is allowed. */
  readonly blocks: readonly IShownBlock[];
  /** The directory on the host that it would work in; empty where there is none. */
  readonly place: string;
  readonly means: string;
}

export const readShown = object<IShown>({
  title: text,
  target: text,
  blocks: listOf(readShownBlock),
  place: text,
  means: text
});

/** An approval, waiting or decided. */
export interface IApproval {
  readonly id: string;
  readonly run_id: string;
  readonly session_id: string;
  readonly kind: string;
  /** One line, what would happen. */
  readonly title: string;
  /** In full. */
  readonly detail: string;
  /** Why, in the asker's words. */
  readonly reason: string;
  /** The exact arguments that would be used. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The answers offered; empty means free text. */
  readonly options: readonly string[];
  readonly content_hash: string;
  readonly requested_at: string;
  readonly deadline_at: string;
  /** Null while it waits. */
  readonly verdict: string | null;
  readonly by: string;
  readonly via: string;
  readonly decided_at: string | null;
  readonly answer: string;
  /** What is to be read before it is answered, as every display shows it; null once it is decided. */
  readonly shown: IShown | null;
  readonly notebook: string;
  readonly kernel_id: string;
  readonly cell_id: string;
  /** The runs that it works for, the first one first; empty for a person's own. */
  readonly lineage: readonly string[];
}

export const readApproval = object<IApproval>({
  id: text,
  run_id: text,
  session_id: text,
  kind: text,
  title: text,
  detail: text,
  reason: text,
  arguments: fields,
  options: listOf(text),
  content_hash: text,
  requested_at: text,
  deadline_at: text,
  verdict: textOrNull,
  by: text,
  via: text,
  decided_at: textOrNull,
  answer: text,
  shown: orNull(readShown),
  notebook: text,
  kernel_id: text,
  cell_id: text,
  lineage: listOf(text)
});

/** A page of approvals. */
export interface IApprovals {
  readonly items: readonly IApproval[];
  /** What the next page is asked for with; null on the last one. */
  readonly next: string | null;
}

export const readApprovals = object<IApprovals>({
  items: listOf(readApproval, 'id'),
  next: textOrNull
});

/** How an approval was decided. */
export interface IDecision {
  readonly approval_id: string;
  readonly verdict: string;
  readonly by: string;
  /** Where it was decided; `sidebar` for this interface. */
  readonly via: string;
  readonly decided_at: string;
  readonly answer: string;
}

export const readDecision = object<IDecision>({
  approval_id: text,
  verdict: text,
  by: text,
  via: text,
  decided_at: text,
  answer: text
});

/** A lease that a run holds, or whose credential is still out. */
export interface ILease {
  readonly lease_id: string;
  readonly run_id: string;
  readonly session_id: string;
  readonly provider: string;
  readonly scope: string;
  /** `held up` while a person is asked for more, `on hold` while nothing is given out, `owed` while it has to be revoked. */
  readonly state: string;
  /** When its present credential ends; null when there is none. */
  readonly expires_at: string | null;
  /** Of its budget, beyond the present credential. */
  readonly budget_left_seconds: number;
  readonly renewals_left: number;
  /** How programs use it; empty while that is not known. */
  readonly way: string;
  /** Where they find it; never a secret. */
  readonly place: string;
  readonly why: string;
  /** Whether it can be taken back. */
  readonly revocable: boolean;
}

export const readLease = object<ILease>({
  lease_id: text,
  run_id: text,
  session_id: text,
  provider: text,
  scope: text,
  state: text,
  expires_at: textOrNull,
  budget_left_seconds: number,
  renewals_left: number,
  way: text,
  place: text,
  why: text,
  revocable: flag
});

/** All leases that are out. */
export interface ILeases {
  readonly items: readonly ILease[];
  readonly next: null;
}

export const readLeases = object<ILeases>({
  items: listOf(readLease, 'lease_id'),
  next: nothing
});

/** What some runs cost. */
export interface ISpending {
  /** What is known; null when nothing is known of runs that did cost something. */
  readonly usd: number | null;
  readonly runs: number;
  /** Runs of unknown price, which stand beside the sum. */
  readonly unpriced_runs: number;
}

export const readSpending = object<ISpending>({
  usd: numberOrNull,
  runs: number,
  unpriced_runs: number
});

/** How much of a budget is spent. */
export interface IBudget {
  readonly run_id: string;
  readonly usd_limit: number;
  /** USD; null is unknown. */
  readonly usd_spent: number | null;
}

export const readBudget = object<IBudget>({
  run_id: text,
  usd_limit: number,
  usd_spent: numberOrNull
});

/** What one day's runs of a model cost. */
export interface IDayCost {
  readonly day: string;
  readonly brain: string;
  readonly model: string;
  /** USD; null is unknown. */
  readonly usd: number | null;
  readonly runs: number;
  readonly unpriced_runs: number;
}

export const readDayCost = object<IDayCost>({
  day: text,
  brain: text,
  model: text,
  usd: numberOrNull,
  runs: number,
  unpriced_runs: number
});

/** What runs cost. */
export interface ICosts {
  readonly today: ISpending;
  /** Of the notebook, or the session, that was asked for, on all days; null when none was. */
  readonly notebook: ISpending | null;
  /** The newest run that goes on under a budget, there or anywhere; null when there is none. */
  readonly budget: IBudget | null;
  /** The oldest day first; days without runs are left out. */
  readonly by_day: readonly IDayCost[];
}

export const readCosts = object<ICosts>({
  today: readSpending,
  notebook: orNull(readSpending),
  budget: orNull(readBudget, 'usd_limit'),
  by_day: listOf(readDayCost, 'day')
});

/** What a plugin may reach. */
export interface IPluginPermissions {
  /** Paths that it may read. */
  readonly read: readonly string[];
  /** Paths that it may read and write. */
  readonly write: readonly string[];
  /** Hosts that it may reach. */
  readonly net: readonly string[];
}

export const readPluginPermissions = object<IPluginPermissions>({
  read: listOf(text),
  write: listOf(text),
  net: listOf(text)
});

/** An audit as a run of the session's process. */
export interface IPluginAuditRun {
  readonly run_id: string;
  readonly status: string;
  readonly live: boolean;
  readonly started_at: string;
  readonly error_code: string;
  /** Why it, or the enabling that it was for, did not end well. */
  readonly error: string;
}

export const readPluginAuditRun = object<IPluginAuditRun>({
  run_id: text,
  status: text,
  live: flag,
  started_at: text,
  error_code: text,
  error: text
});

/** What was last asked for in the session and came to nothing. */
export interface IPluginFailure {
  readonly why: string;
  /** Where it was asked for; empty for what was nobody's wish. */
  readonly via: string;
  readonly at: string;
}

export const readPluginFailure = object<IPluginFailure>({
  why: text,
  via: text,
  at: text
});

/** What the session was told and has not heard yet. */
export interface IPluginWord {
  readonly deed: string;
  readonly by: string;
  readonly at: string;
}

export const readPluginWord = object<IPluginWord>({
  deed: text,
  by: text,
  at: text
});

/** Where a plugin stands in a session. */
export interface IPluginUse {
  readonly session_id: string;
  /** From which its process last ran something; empty elsewhere. */
  readonly notebook: string;
  readonly state: string;
  readonly live: boolean;
}

export const readPluginUse = object<IPluginUse>({
  session_id: text,
  notebook: text,
  state: text,
  live: flag
});

/** A plugin, as a session has it. */
export interface IPlugin {
  readonly name: string;
  readonly version: string;
  /** As its manifest has it; its author's words. */
  readonly description: string;
  readonly place: string;
  /** The project's root, for one that lies in a project. */
  readonly project: string;
  /** What guest code imports. */
  readonly modules: readonly string[];
  readonly permissions: IPluginPermissions;
  /** SHA-256 over all of its files; empty for one that cannot be used. */
  readonly content_hash: string;
  readonly state: string;
  /** Why it stands so in the session; empty where the state says it. */
  readonly why: string;
  /** Whether it was enabled in the session and is off because its files have changed. */
  readonly changed: boolean;
  /** The newer version that a repository has; empty where none is known. */
  readonly update: string;
  /** Since when; null where the session has done nothing with it. */
  readonly changed_at: string | null;
  /** Of the latest audit of exactly these files; null while there is none. */
  readonly risk: string | null;
  /** What that audit advises. */
  readonly verdict: string | null;
  /** Whether that audit has a finding that keeps it out. */
  readonly dangerous: boolean;
  /** Whether no brain has looked. */
  readonly static_only: boolean;
  readonly audited_at: string | null;
  /** Whether exactly these files are approved. */
  readonly approved: boolean;
  /** The trusted author whose signature holds; empty for none. */
  readonly signed_by: string;
  /** Why it cannot be used; empty when it can. */
  readonly problem: string;
  /** Why these files are put off; empty when they are not. */
  readonly quarantine: string;
  /** What it is configured with in the session, passwords masked. */
  readonly config: Readonly<Record<string, string>>;
  /** What its jail opens in the session; null where the session has done nothing with it. */
  readonly opens: IPluginPermissions | null;
  /** The latest audit of a plugin of this name that the session's process has run. */
  readonly audit_run: IPluginAuditRun | null;
  /** What was last asked for in the session and came to nothing. */
  readonly failure: IPluginFailure | null;
  /** Words that the session has not heard yet. */
  readonly waiting: readonly IPluginWord[];
  /** Where it stands in the session that is meant, and in others that go on; the latest first. */
  readonly sessions: readonly IPluginUse[];
}

export const readPlugin = object<IPlugin>({
  name: text,
  version: text,
  description: text,
  place: text,
  project: text,
  modules: listOf(text),
  permissions: readPluginPermissions,
  content_hash: text,
  state: text,
  why: text,
  changed: flag,
  update: text,
  changed_at: textOrNull,
  risk: textOrNull,
  verdict: textOrNull,
  dangerous: flag,
  static_only: flag,
  audited_at: textOrNull,
  approved: flag,
  signed_by: text,
  problem: text,
  quarantine: text,
  config: mapOf(text),
  opens: orNull(readPluginPermissions),
  audit_run: orNull(readPluginAuditRun, 'run_id'),
  failure: orNull(readPluginFailure, 'at'),
  waiting: listOf(readPluginWord),
  sessions: listOf(readPluginUse)
});

/** The session whose plugins are shown. */
export interface IPluginSession {
  readonly session_id: string;
  readonly notebook: string;
  readonly kernel_id: string;
  readonly project: string;
  /** Whether its process may still run. */
  readonly live: boolean;
}

export const readPluginSession = object<IPluginSession>({
  session_id: text,
  notebook: text,
  kernel_id: text,
  project: text,
  live: flag
});

/** All plugins that a session, a notebook or a project can have. */
export interface IPlugins {
  readonly items: readonly IPlugin[];
  /** The session that is meant; null where none is, or nothing is known of it yet. */
  readonly session: IPluginSession | null;
  readonly next: null;
}

export const readPlugins = object<IPlugins>({
  items: listOf(readPlugin, 'name'),
  session: orNull(readPluginSession, 'session_id'),
  next: nothing
});

/** A fact behind an audit. */
export interface IAuditFact {
  readonly name: string;
  readonly text: string;
  /** Whether it speaks for the plugin; null where it does neither. */
  readonly good: boolean | null;
}

export const readAuditFact = object<IAuditFact>({
  name: text,
  text: text,
  good: flagOrNull
});

/** A finding of an audit. */
export interface IAuditFinding {
  readonly severity: string;
  readonly word: string;
  readonly message: string;
  /** File and line; empty for the plugin as a whole. */
  readonly place: string;
  /** The line itself. */
  readonly source: string;
}

export const readAuditFinding = object<IAuditFinding>({
  severity: text,
  word: text,
  message: text,
  place: text,
  source: text
});

/** An attempt to talk to the auditor. */
export interface IInjection {
  readonly text: string;
  readonly why: string;
}

export const readInjection = object<IInjection>({
  text: text,
  why: text
});

/** An audit's report. */
export interface IPluginAudit {
  readonly plugin: string;
  readonly version: string;
  readonly content_hash: string;
  /** Of the latest audit of exactly these files; null while there is none. */
  readonly risk: string | null;
  readonly risk_words: string;
  readonly verdict: string;
  readonly verdict_words: string;
  /** How many findings there are of each severity. */
  readonly counts: string;
  /** What the plugin does, in the auditor's words. */
  readonly summary: string;
  /** What a reader should know about the audit itself. */
  readonly remark: string;
  readonly facts: readonly IAuditFact[];
  /** The gravest first. */
  readonly findings: readonly IAuditFinding[];
  /** Attempts to talk to the auditor. */
  readonly injections: readonly IInjection[];
  readonly canaries: string;
  readonly description_accurate: boolean | null;
  readonly static_only: boolean;
  readonly auditor: string;
  /** What cannot be read is no leave to enable it. */
  readonly dangerous: boolean;
  readonly permissions: IPluginPermissions;
  readonly at: string | null;
}

export const readPluginAudit = object<IPluginAudit>({
  plugin: text,
  version: text,
  content_hash: text,
  risk: textOrNull,
  risk_words: text,
  verdict: text,
  verdict_words: text,
  counts: text,
  summary: text,
  remark: text,
  facts: listOf(readAuditFact),
  findings: listOf(readAuditFinding),
  injections: listOf(readInjection),
  canaries: text,
  description_accurate: flagOrNull,
  static_only: flag,
  auditor: text,
  dangerous: otherwise(true),
  permissions: readPluginPermissions,
  at: textOrNull
});

/** A memory without its text, which may be long. */
export interface IMemoryFacts {
  readonly id: string;
  /** One line, as its author wrote it; take it for text and for nothing else. */
  readonly summary: string;
  /** A note, lesson, fix, outcome, task, decision, or a word of the person's own. */
  readonly type: string;
  /** How far it is trusted. */
  readonly tier: 'trusted' | 'quarantine';
  /** Who said it. */
  readonly author: string;
  /** The person's name, or the agent's; empty where there is none. */
  readonly by: string;
  /** The run that it was said in; empty outside of runs. */
  readonly run_id: string;
  /** What it was read from; empty where there is nothing. */
  readonly uri: string;
  readonly tags: readonly string[];
  readonly importance: number;
  /** Whom it concerns; empty for everybody. */
  readonly scope: string;
  readonly at: string;
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly forgotten_at: string | null;
  /** Whether every run that it concerns starts with it. */
  readonly pinned: boolean;
  /** Who said that it may be trusted; empty where nobody had to. */
  readonly promoted_by: string;
  /** How often it was said to have helped. */
  readonly helped: number;
  /** Likewise, to have misled. */
  readonly misled: number;
}

export const readMemoryFacts = object<IMemoryFacts>({
  id: text,
  summary: text,
  type: text,
  tier: oneOf(['trusted', 'quarantine'], 'quarantine'),
  author: text,
  by: text,
  run_id: text,
  uri: text,
  tags: listOf(text),
  importance: number,
  scope: text,
  at: text,
  created_at: text,
  expires_at: textOrNull,
  forgotten_at: textOrNull,
  pinned: flag,
  promoted_by: text,
  helped: number,
  misled: number
});

/** A memory of a list. */
export interface IMemory extends IMemoryFacts {
  /** How well it fits the words, beside the others of this answer; null without words. */
  readonly score: number | null;
  /** What matched, the strongest first. */
  readonly why: readonly string[];
}

export const readMemory = both(
  readMemoryFacts,
  object<Omit<IMemory, keyof IMemoryFacts>>({
    score: numberOrNull,
    why: listOf(text)
  })
);

/** A page of memories. */
export interface IMemories {
  readonly items: readonly IMemory[];
  /** What the next page is asked for with; null on the last one. */
  readonly next: string | null;
}

export const readMemories = object<IMemories>({
  items: listOf(readMemory, 'id'),
  next: textOrNull
});

/** A memory that another one is joined to. */
export interface INeighbour extends IMemoryFacts {
  /** How the two are joined, such as `came-from` or `prevents`. */
  readonly edge: string;
  /** Whether the edge leads from the memory that was asked for to this one. */
  readonly away: boolean;
}

export const readNeighbour = both(
  readMemoryFacts,
  object<Omit<INeighbour, keyof IMemoryFacts>>({
    edge: text,
    away: flag
  })
);

/** One memory. */
export interface IMemoryInFull extends IMemoryFacts {
  /** What was remembered; take it for text and for nothing else. */
  readonly text: string;
  /** Further facts. */
  readonly data: Readonly<Record<string, unknown>>;
  readonly neighbours: readonly INeighbour[];
}

export const readMemoryInFull = both(
  readMemoryFacts,
  object<Omit<IMemoryInFull, keyof IMemoryFacts>>({
    text: text,
    data: fields,
    neighbours: listOf(readNeighbour, 'id')
  })
);

/** What erasing it with all that came from it would remove. */
export interface IMemoryGrown {
  readonly edges: number;
  /** Those that name one of the memories; a run cannot be resumed from one that is gone. */
  readonly checkpoints: number;
  /** Runs whose checkpoints or summaries are among it. */
  readonly runs: readonly string[];
  /** Runs that go on and know one of the memories; what they store from now on may hold it again. */
  readonly going: readonly string[];
  /** It first, then what came from it. */
  readonly memories: readonly IMemoryFacts[];
}

export const readMemoryGrown = object<IMemoryGrown>({
  edges: number,
  checkpoints: number,
  runs: listOf(text),
  going: listOf(text),
  memories: listOf(readMemoryFacts, 'id')
});

/** A remembered failure. */
export interface ILesson extends IMemory {
  /** What it was that went wrong; empty where nothing is known. */
  readonly trigger: string;
  /** What was said then, in a box's or somebody's words; likewise. */
  readonly said: string;
  /** The tool that it went wrong with; likewise. */
  readonly tool: string;
  /** What prevented it later; empty while nobody knows. */
  readonly fix: string;
  /** What was being done; likewise. */
  readonly task: string;
  /** In how many runs it happened. */
  readonly seen: number;
}

export const readLesson = both(
  readMemory,
  object<Omit<ILesson, keyof IMemory>>({
    trigger: text,
    said: text,
    tool: text,
    fix: text,
    task: text,
    seen: number
  })
);

/** Lessons. */
export interface ILessons {
  readonly items: readonly ILesson[];
  /** What the next page is asked for with; null on the last one. */
  readonly next: string | null;
}

export const readLessons = object<ILessons>({
  items: listOf(readLesson, 'id'),
  next: textOrNull
});

/** How much is remembered, and where. */
export interface IMemoryCounts {
  /** Those that can be found. */
  readonly memories: number;
  /** Of them, how many are not trusted. */
  readonly quarantined: number;
  /** Forgotten and not erased yet. */
  readonly forgotten: number;
  readonly edges: number;
  /** A path, or an address without a password. */
  readonly where: string;
}

export const readMemoryCounts = object<IMemoryCounts>({
  memories: number,
  quarantined: number,
  forgotten: number,
  edges: number,
  where: text
});

/** The settings of the person at this server. What looks like a secret is not told. */
export interface ISettings {
  /** The file that kernels read when they start. */
  readonly path: string;
  /** Of the file; a change names the one that it was made of. */
  readonly version: string;
  /** Each setting with its meaning, default and bounds, as JSON schema. */
  readonly form: Readonly<Record<string, unknown>>;
  /** What each of them is now. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Where from: `default`, `shared`, `file`, or the name of a variable. */
  readonly sources: Readonly<Record<string, string>>;
  /** Why some cannot be changed here. */
  readonly locked: Readonly<Record<string, string>>;
  /** What is wrong with some; an empty name stands for the whole file. */
  readonly problems: Readonly<Record<string, string>>;
}

export const readSettings = object<ISettings>({
  path: text,
  version: text,
  form: fields,
  values: fields,
  sources: mapOf(text),
  locked: mapOf(text),
  problems: mapOf(text)
});
