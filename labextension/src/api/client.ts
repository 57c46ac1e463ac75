/**
 * The REST interface of the server extension, typed. It knows no Jupyter: whoever makes one hands in how a request is sent.
 */
import type {
  IApproval,
  ICosts,
  IDecision,
  ILease,
  ILesson,
  IMemory,
  IMemoryCounts,
  IMemoryGrown,
  IMemoryInFull,
  IPluginAudit,
  IPlugins,
  IRun,
  IRunCard,
  ISettings,
  IStatus
} from './schema.js';
import type { IPage, MemoryDeed, PluginDeed, Tier, Verdict } from '../tokens.js';
import * as decode from './decode.js';
import * as schema from './schema.js';
import { bad, good, kindOf, type Result } from './result.js';

/** What is needed of an answer. */
export interface IAnswer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

export interface IRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly headers: Record<string, string>;
  readonly body?: string;
}

/** Sends one request to a path below the interface's base, such as `runs?limit=50`; rejects when nothing answers. */
export type Send = (path: string, request: IRequest) => Promise<IAnswer>;

export interface IRunQuery {
  limit: number;
  before?: string;
  state?: 'live' | 'ended';
  q?: string;
  /** Only this notebook's, by the journal's name of it. */
  notebook?: string;
}

export interface IMemoryQuery {
  /** How many at most. */
  k: number;
  q?: string;
  type?: string;
  tier?: Tier;
  before?: string;
}

/** What a session is told about a plugin; files that were shown are named by their hash. */
export interface IPluginOrder {
  session_id: string;
  content_hash?: string;
  /** Settings, each `field=value`. */
  configuration?: string;
}

/** How many answers are kept to be asked for with their ETag. */
const KEPT_ANSWERS = 64;

/** A difference of clocks smaller than this is the time an answer took, or the second that its date is cut to. */
const CLOCK_TOLERANCE_MS = 3000;

export class KaguraClient {
  constructor(send: Send, now: () => number = Date.now) {
    this._send = send;
    this._now = now;
  }

  /** How far the server's clock is ahead of this one, in milliseconds; countdowns are the server's. */
  get clockOffset(): number {
    return this._clockOffset;
  }

  status(): Promise<Result<IStatus>> {
    return this._get('status', schema.readStatus);
  }

  runs(query: IRunQuery): Promise<Result<IPage<IRun>>> {
    const { limit, before, state, q, notebook } = query;
    const asked = { limit, before, state, q, notebook };
    return this._get(`runs${queryText(asked)}`, schema.readRuns);
  }

  run(id: string): Promise<Result<IRun>> {
    return this._get(`runs/${encodeURIComponent(id)}`, schema.readRun);
  }

  /** The card of a run that is over. */
  card(id: string): Promise<Result<IRunCard>> {
    return this._get(`runs/${encodeURIComponent(id)}/card`, schema.readRunCard);
  }

  kill(id: string): Promise<Result<null>> {
    return this._post(`runs/${encodeURIComponent(id)}/kill`, {}, () => null);
  }

  /** Says something to a run that goes on. */
  say(id: string, text: string): Promise<Result<null>> {
    return this._post(`runs/${encodeURIComponent(id)}/sentences`, { text }, () => null);
  }

  approvals(state: 'pending' | 'decided', limit: number): Promise<Result<IPage<IApproval>>> {
    return this._get(`approvals${queryText({ state, limit })}`, schema.readApprovals);
  }

  /** Answers an approval. When somebody was faster the problem is a conflict, see `decisionOf`. */
  decide(id: string, verdict: Verdict, answer: string): Promise<Result<IDecision>> {
    return this._post(
      `approvals/${encodeURIComponent(id)}/decision`,
      { verdict, answer },
      schema.readDecision
    );
  }

  leases(): Promise<Result<IPage<ILease>>> {
    return this._get('leases', schema.readLeases);
  }

  revoke(id: string): Promise<Result<null>> {
    return this._post(`leases/${encodeURIComponent(id)}/revoke`, {}, () => null);
  }

  costs(days: number, notebook: string): Promise<Result<ICosts>> {
    return this._get(`costs${queryText({ days, notebook })}`, schema.readCosts);
  }

  /** The plugins that a notebook's session can have; its kernel's id says more than its name. */
  plugins(notebook: string, kernel: string): Promise<Result<IPlugins>> {
    return this._get(`plugins${queryText({ notebook, kernel })}`, schema.readPlugins);
  }

  pluginAudit(name: string, content_hash: string): Promise<Result<IPluginAudit>> {
    const asked = queryText({ content_hash });
    return this._get(`plugins/${encodeURIComponent(name)}/audit${asked}`, schema.readPluginAudit);
  }

  /** Leaves a session a word about a plugin; that it was heard is seen in the list. */
  tellPlugin(name: string, deed: PluginDeed, order: IPluginOrder): Promise<Result<null>> {
    return this._post(`plugins/${encodeURIComponent(name)}/${deed}`, order, () => null);
  }

  memories(query: IMemoryQuery): Promise<Result<IPage<IMemory>>> {
    return this._get(`memories${queryText({ ...query })}`, schema.readMemories);
  }

  memory(id: string): Promise<Result<IMemoryInFull>> {
    return this._get(memoryPath(id), schema.readMemoryInFull);
  }

  /** What would be erased with a memory. */
  grown(id: string): Promise<Result<IMemoryGrown>> {
    return this._get(`${memoryPath(id)}/grown`, schema.readMemoryGrown);
  }

  memoryCounts(): Promise<Result<IMemoryCounts>> {
    return this._get('memories/counts', schema.readMemoryCounts);
  }

  lessons(query: { k: number; q?: string }): Promise<Result<IPage<ILesson>>> {
    return this._get(`lessons${queryText({ ...query })}`, schema.readLessons);
  }

  changeMemory(id: string, deed: MemoryDeed): Promise<Result<null>> {
    return this._post(`${memoryPath(id)}/${deed}`, {}, () => null);
  }

  /** Removes a memory and all that came from it, for good. */
  eraseMemory(id: string): Promise<Result<null>> {
    return this._act(`${memoryPath(id)}?cascade=true`, { method: 'DELETE', headers: {} }, () => null);
  }

  settings(): Promise<Result<ISettings>> {
    return this._get('settings', schema.readSettings);
  }

  /** Changes settings in the file of which this version was shown; where something is wrong nothing is changed. */
  changeSettings(version: string, values: object): Promise<Result<ISettings>> {
    return this._post('settings', { version, values }, schema.readSettings);
  }

  /** An answer that has not changed comes back as the very same value, so that nothing is drawn again. */
  private async _get<T>(path: string, read: (value: unknown) => T): Promise<Result<T>> {
    const kept = this._kept.get(path) as { etag: string; value: T } | undefined;
    const headers: Record<string, string> = kept ? { 'If-None-Match': kept.etag } : {};
    const answer = await this._ask(path, { method: 'GET', headers });
    if (answer === null) {
      return bad('unreachable', 0);
    }
    if (answer.status === 304 && kept) {
      this._keep(path, kept);
      return good(kept.value);
    }
    const result = await received(answer, read);
    const etag = answer.headers.get('ETag');
    if (result.ok && etag) {
      this._keep(path, { etag, value: result.value });
    }
    return result;
  }

  private _post<T>(path: string, body: object, read: (value: unknown) => T): Promise<Result<T>> {
    const headers = { 'Content-Type': 'application/json' };
    return this._act(path, { method: 'POST', headers, body: JSON.stringify(body) }, read);
  }

  private async _act<T>(path: string, request: IRequest, read: (value: unknown) => T): Promise<Result<T>> {
    const answer = await this._ask(path, request);
    return answer === null ? bad('unreachable', 0) : received(answer, read);
  }

  private async _ask(path: string, request: IRequest): Promise<IAnswer | null> {
    try {
      const answer = await this._send(path, request);
      this._readClock(answer.headers.get('Date'));
      return answer;
    } catch {
      // Whatever a browser says of a request without an answer ("Failed to fetch") helps nobody.
      return null;
    }
  }

  private _readClock(date: string | null): void {
    const offset = date ? Date.parse(date) - this._now() : NaN;
    if (!Number.isNaN(offset)) {
      this._clockOffset = Math.abs(offset) > CLOCK_TOLERANCE_MS ? offset : 0;
    }
  }

  private _keep(path: string, answer: { etag: string; value: unknown }): void {
    this._kept.delete(path);
    this._kept.set(path, answer);
    const oldest = this._kept.size > KEPT_ANSWERS ? this._kept.keys().next().value : undefined;
    if (oldest !== undefined) {
      this._kept.delete(oldest);
    }
  }

  private readonly _send: Send;
  private readonly _now: () => number;
  private readonly _kept = new Map<string, { etag: string; value: unknown }>();
  private _clockOffset = 0;
}

async function received<T>(answer: IAnswer, read: (value: unknown) => T): Promise<Result<T>> {
  let body: unknown = null;
  try {
    body = JSON.parse((await answer.text()) || 'null');
  } catch {
    // A proxy's page of HTML, say. The status tells enough.
    if (answer.status < 300) {
      return bad('failed', answer.status);
    }
  }
  if (answer.status >= 200 && answer.status < 300) {
    return good(read(body));
  }
  const { code, message } = decode.fields(body);
  return bad(kindOf(answer.status), answer.status, {
    code: decode.text(code),
    message: decode.text(message),
    body
  });
}

/** Ids that were imported may hold a colon, which stands in a path as it is. */
function memoryPath(id: string): string {
  return `memories/${encodeURIComponent(id).replaceAll('%3A', ':')}`;
}

function queryText(values: Record<string, string | number | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== '') {
      query.set(name, String(value));
    }
  }
  const written = query.toString();
  return written && `?${written}`;
}
