import type { IAnswer, IRequest } from '../api/client.js';
import { fresh, json, type IRow } from './answers.js';

/** The server's routes about memories, in memory. */
export class FakeMemory {
  /** The newest first; one with `came_from` goes when that one is erased. */
  rows: IRow[] = [];
  lessons: IRow[] = [];
  neighbours: IRow[] = [];
  grown: IRow = { edges: 0, checkpoints: 0, runs: [], going: [] };
  /** Why the memory cannot be reached; empty when it can. */
  trouble = '';

  answer(
    request: IRequest,
    [list, id, act]: readonly (string | undefined)[],
    words: URLSearchParams
  ): IAnswer {
    if (this.trouble) {
      return json(503, { code: 'ERR_MEMORY_UNAVAILABLE', message: this.trouble });
    }
    const here = this.rows.filter(row => row['forgotten'] !== true);
    if (list === 'lessons') {
      const q = words.get('q') ?? '';
      const items = this.lessons.filter(row => String(row['trigger']).includes(q));
      return fresh(request, { items, next: null });
    }
    if (id === undefined) {
      return fresh(request, this._found(here, words));
    }
    if (id === 'counts') {
      return fresh(request, { memories: here.length, quarantined: 0, forgotten: 0, edges: 0, where: '/x' });
    }
    const row = this.rows.find(found => found['id'] === id);
    if (!row) {
      return json(404, { code: 'ERR_MEMORY_UNKNOWN', message: `There is no memory ${id}.` });
    }
    const grown = this.rows.filter(found => found === row || found['came_from'] === id);
    if (request.method === 'DELETE') {
      this.rows = this.rows.filter(found => !grown.includes(found));
      return json(200, {});
    }
    if (act === 'grown') {
      return fresh(request, { ...this.grown, memories: grown });
    }
    if (act === undefined) {
      return fresh(request, { text: `The text of ${id}`, ...row, neighbours: this.neighbours });
    }
    const changes: Record<string, IRow> = {
      promote: { tier: 'trusted' },
      demote: { tier: 'quarantine' },
      pin: { pinned: true },
      unpin: { pinned: false },
      forget: { forgotten: true },
      restore: { forgotten: false }
    };
    Object.assign(row, changes[act]);
    return json(200, { memory: row });
  }

  private _found(rows: IRow[], words: URLSearchParams): IRow {
    const wanted = (name: string, field: string) => {
      const word = words.get(name) ?? '';
      return (row: IRow) => !word || String(row[field]).includes(word);
    };
    const q = words.get('q') ?? '';
    const found = rows
      .filter(wanted('q', 'summary'))
      .filter(wanted('type', 'type'))
      .filter(wanted('tier', 'tier'))
      .map(row => (q ? { ...row, why: [q] } : row));
    const begin = Number(words.get('before') ?? 0);
    const end = begin + Number(words.get('k') ?? 50);
    return { items: found.slice(begin, end), next: !q && end < found.length ? String(end) : null };
  }
}

export function aMemory(id: string, changes: IRow = {}): IRow {
  return {
    id,
    summary: `The memory ${id}`,
    type: 'note',
    tier: 'trusted',
    author: 'agent',
    by: 'claude',
    run_id: 'run-1',
    uri: '',
    tags: [],
    scope: '',
    at: '2026-01-01T00:00:00.000000Z',
    expires_at: null,
    pinned: false,
    promoted_by: '',
    helped: 0,
    misled: 0,
    why: [],
    ...changes
  };
}
