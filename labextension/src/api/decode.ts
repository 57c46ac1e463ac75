/**
 * JSON from the server as values of ours. What is missing or of another type gets a harmless default, so that an older or newer
 * server never breaks the page.
 */
import {
  TOPICS,
  type IApproval,
  type IShown,
  type IAuditRun,
  type IBudget,
  type ICard,
  type IChange,
  type ICosts,
  type IDayCost,
  type IDecision,
  type IFinding,
  type ILease,
  type IPage,
  type IPermissions,
  type IPlugin,
  type IPluginAudit,
  type IPlugins,
  type IRun,
  type ISpent,
  type IStatus,
  type Topic
} from '../tokens.js';

type Fields = Readonly<Record<string, unknown>>;

export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function number(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** One page; items without the field that names them are left out. */
export function page<T>(value: unknown, decode: (item: unknown) => T, key: (item: T) => string): IPage<T> {
  const { items, next } = fields(value);
  return { items: list(items).map(decode).filter(key), next: textOrNull(next) };
}

export function status(value: unknown): IStatus {
  const from = fields(value);
  return {
    version: text(from.version),
    pending: number(from.pending),
    live: number(from.live),
    cost_today_usd: numberOrNull(from.cost_today_usd),
    unpriced_today: number(from.unpriced_today),
    seq: number(from.seq)
  };
}

export function card(value: unknown): ICard {
  const from = fields(value);
  return { over: from.over === true, data: fields(from.data), metadata: fields(from.metadata) };
}

export function run(value: unknown): IRun {
  const from = fields(value);
  return {
    run_id: text(from.run_id),
    session_id: text(from.session_id),
    flavour: text(from.flavour),
    status: text(from.status),
    task: text(from.task),
    brain: text(from.brain),
    model: text(from.model),
    started_at: text(from.started_at),
    duration: numberOrNull(from.duration),
    cost_usd: numberOrNull(from.cost_usd),
    budget_usd: numberOrNull(from.budget_usd),
    changed_files: number(from.changed_files),
    error_code: text(from.error_code),
    live: from.live === true,
    verified: booleanOrNull(from.verified),
    untrusted: from.untrusted === true,
    user: text(from.user),
    ...origin(from)
  };
}

export function approval(value: unknown): IApproval {
  const from = fields(value);
  return {
    id: text(from.id),
    run_id: text(from.run_id),
    session_id: text(from.session_id),
    kind: text(from.kind),
    title: text(from.title),
    detail: text(from.detail),
    reason: text(from.reason),
    arguments: fields(from.arguments),
    options: list(from.options).map(text).filter(Boolean),
    requested_at: text(from.requested_at),
    deadline_at: text(from.deadline_at),
    verdict: textOrNull(from.verdict),
    by: text(from.by),
    via: text(from.via),
    decided_at: textOrNull(from.decided_at),
    answer: text(from.answer),
    lineage: texts(from.lineage),
    shown: from.shown ? shown(from.shown) : null,
    ...origin(from)
  };
}

function shown(value: unknown): IShown {
  const from = fields(value);
  return {
    title: text(from.title),
    target: text(from.target),
    blocks: list(from.blocks).map(block => {
      const { label, text: words, size } = fields(block);
      return { label: text(label), text: text(words), size: text(size) };
    }),
    place: text(from.place),
    means: text(from.means)
  };
}

export function decision(value: unknown): IDecision {
  const from = fields(value);
  return { verdict: text(from.verdict), by: text(from.by), via: text(from.via), answer: text(from.answer) };
}

export function lease(value: unknown): ILease {
  const from = fields(value);
  return {
    lease_id: text(from.lease_id),
    run_id: text(from.run_id),
    provider: text(from.provider),
    scope: text(from.scope),
    state: text(from.state),
    expires_at: text(from.expires_at),
    budget_left_seconds: numberOrNull(from.budget_left_seconds),
    renewals_left: numberOrNull(from.renewals_left),
    way: text(from.way),
    place: text(from.place),
    revocable: from.revocable === true
  };
}

export function costs(value: unknown): ICosts {
  const from = fields(value);
  return {
    today: spent(from.today),
    notebook: from.notebook === null || from.notebook === undefined ? null : spent(from.notebook),
    budget: budget(from.budget),
    by_day: list(from.by_day)
      .map(dayCost)
      .filter(item => item.day)
  };
}

export function plugins(value: unknown): IPlugins {
  const from = fields(value);
  const session = fields(from.session);
  const session_id = text(session.session_id);
  return {
    items: list(from.items)
      .map(plugin)
      .filter(item => item.name),
    session: session_id ? { session_id, notebook: text(session.notebook), live: session.live === true } : null
  };
}

export function pluginAudit(value: unknown): IPluginAudit {
  const from = fields(value);
  return {
    content_hash: text(from.content_hash),
    risk: text(from.risk),
    risk_words: text(from.risk_words),
    verdict_words: text(from.verdict_words),
    counts: text(from.counts),
    summary: text(from.summary),
    remark: text(from.remark),
    facts: list(from.facts)
      .map(fields)
      .map(fact => ({ name: text(fact.name), text: text(fact.text), good: booleanOrNull(fact.good) })),
    findings: list(from.findings).map(finding),
    injections: list(from.injections)
      .map(fields)
      .map(one => ({ text: text(one.text), why: text(one.why) })),
    // What cannot be read is no leave to enable it.
    dangerous: from.dangerous !== false
  };
}

/** An event of our schema; null when it is something else. */
export function change(value: unknown): IChange | null {
  const from = fields(value);
  const topic = TOPICS.find((known): known is Topic => known === from.topic);
  if (!topic) {
    return null;
  }
  return { topic, seq: number(from.seq), run_id: text(from.run_id), approval_id: text(from.approval_id) };
}

function origin(from: Fields): { notebook: string; kernel_id: string; cell_id: string } {
  return { notebook: text(from.notebook), kernel_id: text(from.kernel_id), cell_id: text(from.cell_id) };
}

function spent(value: unknown): ISpent {
  const from = fields(value);
  return { usd: numberOrNull(from.usd), runs: number(from.runs), unpriced_runs: number(from.unpriced_runs) };
}

function dayCost(value: unknown): IDayCost {
  const from = fields(value);
  return { ...spent(value), day: text(from.day), brain: text(from.brain), model: text(from.model) };
}

function budget(value: unknown): IBudget | null {
  const from = fields(value);
  const limit = numberOrNull(from.usd_limit);
  return limit === null
    ? null
    : { usd_limit: limit, usd_spent: numberOrNull(from.usd_spent), run_id: text(from.run_id) };
}

function plugin(value: unknown): IPlugin {
  const from = fields(value);
  return {
    name: text(from.name),
    version: text(from.version),
    description: text(from.description),
    place: text(from.place),
    project: text(from.project),
    modules: texts(from.modules),
    permissions: permissions(from.permissions),
    content_hash: text(from.content_hash),
    state: text(from.state),
    why: text(from.why),
    changed_at: textOrNull(from.changed_at),
    risk: textOrNull(from.risk),
    dangerous: from.dangerous === true,
    static_only: from.static_only === true,
    audited_at: textOrNull(from.audited_at),
    approved: from.approved === true,
    signed_by: text(from.signed_by),
    problem: text(from.problem),
    quarantine: text(from.quarantine),
    config: Object.fromEntries(Object.entries(fields(from.config)).map(([name, told]) => [name, text(told)])),
    opens: from.opens === null || from.opens === undefined ? null : permissions(from.opens),
    audit_run: auditRun(from.audit_run),
    failure: failure(from.failure),
    waiting: list(from.waiting).map(word => text(fields(word).deed))
  };
}

function auditRun(value: unknown): IAuditRun | null {
  const from = fields(value);
  const run_id = text(from.run_id);
  return run_id
    ? {
        run_id,
        status: text(from.status),
        live: from.live === true,
        error_code: text(from.error_code),
        error: text(from.error)
      }
    : null;
}

function failure(value: unknown): { why: string; at: string } | null {
  const from = fields(value);
  return text(from.at) ? { why: text(from.why), at: text(from.at) } : null;
}

function permissions(value: unknown): IPermissions {
  const from = fields(value);
  return { read: texts(from.read), write: texts(from.write), net: texts(from.net) };
}

function finding(value: unknown): IFinding {
  const from = fields(value);
  return {
    severity: text(from.severity),
    word: text(from.word),
    message: text(from.message),
    place: text(from.place),
    source: text(from.source)
  };
}

export function texts(value: unknown): readonly string[] {
  return list(value).map(text).filter(Boolean);
}

function booleanOrNull(value: unknown): boolean | null {
  return typeof value === 'boolean' ? value : null;
}
