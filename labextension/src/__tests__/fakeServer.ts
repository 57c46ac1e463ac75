import type { IAnswer, IRequest, Send } from '../api/client.js';
import type { IPageVisibility, ITimers } from '../model/timing.js';
import type { TranslationBundle } from '@jupyterlab/translation';
import { FakeMemory } from './fakeMemory.js';
import { fresh, json, type IRow } from './answers.js';

/** The server extension in memory: lists with cursors and ETags, the first decision wins. */
export class FakeServer {
  /** Every request so far, as `GET runs?limit=50`. */
  readonly asked: string[] = [];
  runs: IRow[] = [];
  approvals: IRow[] = [];
  leases: IRow[] = [];
  costs: IRow = { today: { usd: 0, runs: 0, unpriced_runs: 0 }, notebook: null, budget: null, by_day: [] };
  plugins: IRow[] = [];
  /** The session of the notebook that is looked at; null while its kernel has begun no run. */
  session: IRow | null = { session_id: 'ses-1', notebook: 'a.ipynb', live: true };
  audits: Record<string, IRow> = {};
  /** What the session was told: deed, plugin, and the request's body. */
  readonly told: { deed: string; plugin: string; body: IRow }[] = [];
  readonly memory = new FakeMemory();
  seq = 1;
  /** Whether it answers at all. */
  up = true;
  /** What was said to runs, and whether their brains listen. */
  readonly said: [string, string][] = [];
  listens = true;
  /** Who answers every approval just before we do; empty for nobody. */
  faster = '';
  readonly send: Send = async (path, request) => {
    this.asked.push(`${request.method} ${path}`);
    if (!this.up) {
      throw new TypeError('Failed to fetch');
    }
    // What a handler sees is what is there when the request arrives, not when it was called.
    await Promise.resolve();
    return this._answer(path, request);
  };

  private _answer(path: string, request: IRequest): IAnswer {
    const [place = '', query = ''] = path.split('?');
    const [list, id, act] = place.split('/').map(decodeURIComponent);
    const words = new URLSearchParams(query);
    if (list === 'memories' || list === 'lessons') {
      return this.memory.answer(request, [list, id, act], words);
    }
    if (request.method === 'POST') {
      return this._act(`${list}/${act}`, id ?? '', request.body ?? '');
    }
    switch (list) {
      case 'status': {
        const pending = this.approvals.filter(row => row['verdict'] === null).length;
        const live = this.runs.filter(row => row['live']).length;
        return fresh(request, {
          version: '1',
          pending,
          live,
          cost_today_usd: 0.5,
          unpriced_today: 0,
          seq: this.seq
        });
      }
      case 'runs':
        if (id !== undefined) {
          const run = this.runs.find(row => row['run_id'] === id);
          return run
            ? fresh(request, run)
            : json(404, { code: 'ERR_RUN_UNKNOWN', message: `No run is named ${id}.` });
        }
        return fresh(request, this._page(this._runs(words), words));
      case 'approvals': {
        const decided = words.get('state') === 'decided';
        return fresh(
          request,
          this._page(
            this.approvals.filter(row => (row['verdict'] !== null) === decided),
            words
          )
        );
      }
      case 'leases':
        return fresh(request, { items: this.leases, next: null });
      case 'costs':
        return fresh(request, this.costs);
      case 'plugins':
        if (act === 'audit') {
          const audit = this.audits[words.get('content_hash') ?? ''];
          return audit
            ? fresh(request, audit)
            : json(404, { code: 'ERR_UNKNOWN_NAME', message: 'No audit.' });
        }
        return fresh(request, { items: this.plugins, session: this.session, next: null });
      default:
        return json(404, {});
    }
  }

  private _runs(words: URLSearchParams): IRow[] {
    const state = words.get('state');
    const q = words.get('q');
    return this.runs
      .filter(
        row =>
          (state === null || row['live'] === (state === 'live')) && (!q || String(row['task']).includes(q))
      )
      .sort((one, other) => (String(one['started_at']) < String(other['started_at']) ? 1 : -1));
  }

  private _page(rows: IRow[], words: URLSearchParams): IRow {
    const begin = Number(words.get('before') ?? 0);
    const end = begin + Number(words.get('limit') ?? 50);
    return { items: rows.slice(begin, end), next: end < rows.length ? String(end) : null };
  }

  private _act(act: string, id: string, body: string): IAnswer {
    if (act === 'runs/kill') {
      this.runs = this.runs.map(row =>
        row['run_id'] === id ? { ...row, live: false, status: 'killed' } : row
      );
      return json(202, {});
    }
    if (act === 'runs/sentences') {
      this.said.push([id, String((JSON.parse(body) as IRow)['text'])]);
      return this.listens ? json(202, {}) : json(409, { code: 'ERR_NOT_HEARD', message: 'Nobody listens.' });
    }
    if (act === 'leases/revoke') {
      this.leases = this.leases.filter(row => row['lease_id'] !== id);
      return json(202, {});
    }
    if (act.startsWith('plugins/')) {
      return this._tell(act.slice('plugins/'.length), id, JSON.parse(body) as IRow);
    }
    const row = this.approvals.find(found => found['id'] === id);
    if (!row) {
      return json(404, { code: 'ERR_APPROVAL_UNKNOWN', message: `No approval is named ${id}.` });
    }
    if (this.faster && row['verdict'] === null) {
      Object.assign(row, { verdict: 'deny', by: this.faster, via: 'cell' });
    }
    if (row['verdict'] !== null) {
      return json(409, { code: 'ERR_APPROVAL_DECIDED', message: 'Decided already.', decision: row });
    }
    const { verdict, answer } = JSON.parse(body) as { verdict: string; answer: string };
    Object.assign(row, { verdict, answer, by: 'ada', via: 'sidebar' });
    return json(200, row);
  }

  /** A word waits until a test lets the kernel hear it. */
  private _tell(deed: string, plugin: string, body: IRow): IAnswer {
    const row = this.plugins.find(found => found['name'] === plugin);
    if (!row || this.session?.['live'] !== true) {
      return json(409, { code: 'ERR_SESSION_GONE', message: 'No process holds the session.' });
    }
    this.told.push({ deed, plugin, body });
    this.changePlugin(plugin, { waiting: [{ deed, by: 'ada', at: '' }] });
    return json(202, {});
  }

  changePlugin(name: string, changes: IRow): void {
    this.plugins = this.plugins.map(row => (row['name'] === name ? { ...row, ...changes } : row));
  }
}

export function aPlugin(name: string, changes: IRow = {}): IRow {
  return {
    name,
    version: '1.0.0',
    description: `The plugin ${name}`,
    place: 'project',
    project: '/home/ada/project',
    modules: [name],
    permissions: { read: ['{base_dir}'], write: [], net: [] },
    content_hash: 'ab',
    state: 'discovered',
    why: '',
    changed: false,
    update: '',
    changed_at: null,
    risk: null,
    dangerous: false,
    audited_at: null,
    approved: false,
    audit_run: null,
    waiting: [],
    ...changes
  };
}

export function anAudit(changes: IRow = {}): IRow {
  return {
    content_hash: 'ab',
    risk: 'MEDIUM',
    risk_words: 'Medium risk',
    verdict_words: 'Look at it yourself before you enable it',
    counts: '1 warning',
    summary: 'It greets.',
    remark: '',
    facts: [{ name: 'Auditor', text: 'claude', good: null }],
    findings: [
      {
        severity: 'warning',
        word: 'Warning',
        message: 'Reads the environment',
        place: 'plugin.py:3',
        source: 'os.environ'
      }
    ],
    injections: [],
    dangerous: false,
    ...changes
  };
}

export function aRun(number: number, changes: IRow = {}): IRow {
  const started_at = new Date(Date.UTC(2026, 0, 1) + number * 1000).toISOString();
  return {
    run_id: `run-${number}`,
    status: 'done',
    live: false,
    task: `task ${number}`,
    started_at,
    duration: 1,
    ...changes
  };
}

export function anApproval(id: string, changes: IRow = {}): IRow {
  return {
    id,
    run_id: 'run-1',
    kind: 'host_command',
    title: 'Run a command on this machine',
    detail: 'git push',
    reason: '',
    arguments: { command: 'git push' },
    options: [],
    requested_at: '2026-01-01T00:00:00Z',
    deadline_at: '2026-01-01T00:05:00Z',
    verdict: null,
    shown: {
      title: changes['title'] ?? 'Run a command on this machine',
      target: '',
      blocks: [{ label: '', text: changes['detail'] ?? 'git push', size: '' }],
      place: '',
      means: ''
    },
    ...changes
  };
}

/** Time that stands still until a test moves it. */
export class HandTimers implements ITimers {
  private _now = 0;
  private _next = 1;
  private readonly _calls = new Map<number, { at: number; call: () => void }>();

  now(): number {
    return this._now;
  }

  after(milliseconds: number, call: () => void): number {
    this._calls.set(this._next, { at: this._now + milliseconds, call });
    return this._next++;
  }

  cancel(timer: number): void {
    this._calls.delete(timer);
  }

  /** Moves the time on; what falls due is called, and what that starts is given the chance to end. */
  async pass(milliseconds: number): Promise<void> {
    const end = this._now + milliseconds;
    for (;;) {
      const due = [...this._calls]
        .filter(([, { at }]) => at <= end)
        .sort(([, one], [, other]) => one.at - other.at)[0];
      if (!due) {
        break;
      }
      this._calls.delete(due[0]);
      this._now = due[1].at;
      due[1].call();
      await settled();
    }
    this._now = end;
    await settled();
  }
}

/** A page that is seen or not, as a test says. */
export class HandPage implements IPageVisibility {
  private _visible = true;
  private readonly _calls: (() => void)[] = [];

  visible(): boolean {
    return this._visible;
  }

  onChange(call: () => void): void {
    this._calls.push(call);
  }

  async show(visible: boolean): Promise<void> {
    this._visible = visible;
    this._calls.forEach(call => call());
    await settled();
  }
}

/** Waits until everything that was started has come as far as it can without the passing of time. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) {
    await new Promise(resolve => setImmediate(resolve));
  }
}

/** English: fills in the figures. */
export const english = {
  __: (text: string, ...values: unknown[]) => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    filled(count === 1 ? one : many, values)
} as unknown as TranslationBundle;

function filled(text: string, values: unknown[]): string {
  return text.replace(/%(\d)/g, (_, number: string) => String(values[Number(number) - 1]));
}
