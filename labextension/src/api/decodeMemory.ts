/** JSON about memories as values of ours; see `decode` for what becomes of what is missing. */
import type { IGrown, ILesson, IMemory, IMemoryCounts, IMemoryInFull, INeighbour, Tier } from '../tokens.js';
import { fields, list, number, text, textOrNull, texts } from './decode.js';

export function memory(value: unknown): IMemory {
  const from = fields(value);
  return {
    id: text(from.id),
    summary: text(from.summary),
    type: text(from.type),
    tier: tier(from.tier),
    author: text(from.author),
    by: text(from.by),
    run_id: text(from.run_id),
    uri: text(from.uri),
    tags: texts(from.tags),
    scope: text(from.scope),
    at: text(from.at),
    expires_at: textOrNull(from.expires_at),
    pinned: from.pinned === true,
    promoted_by: text(from.promoted_by),
    helped: number(from.helped),
    misled: number(from.misled),
    why: texts(from.why)
  };
}

export function lesson(value: unknown): ILesson {
  const from = fields(value);
  return {
    ...memory(value),
    trigger: text(from.trigger),
    said: text(from.said),
    tool: text(from.tool),
    fix: text(from.fix),
    task: text(from.task),
    seen: number(from.seen)
  };
}

export function memoryInFull(value: unknown): IMemoryInFull {
  const from = fields(value);
  return {
    ...memory(value),
    text: text(from.text),
    data: fields(from.data),
    neighbours: list(from.neighbours).map(neighbour)
  };
}

export function grown(value: unknown): IGrown {
  const from = fields(value);
  return {
    memories: list(from.memories).map(memory),
    edges: number(from.edges),
    checkpoints: number(from.checkpoints),
    runs: texts(from.runs),
    going: texts(from.going)
  };
}

export function counts(value: unknown): IMemoryCounts {
  const from = fields(value);
  return {
    memories: number(from.memories),
    quarantined: number(from.quarantined),
    forgotten: number(from.forgotten),
    where: text(from.where)
  };
}

/** What cannot be read is not trusted. */
function tier(value: unknown): Tier {
  return value === 'trusted' ? 'trusted' : 'quarantine';
}

function neighbour(value: unknown): INeighbour {
  const from = fields(value);
  return { ...memory(value), edge: text(from.edge), away: from.away === true };
}
