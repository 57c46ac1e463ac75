import type { IDayCost } from '../api/schema.js';

const DAY_MS = 24 * 3600 * 1000;

export interface IDaySum {
  /** `2026-01-31`, UTC, as the journal counts days. */
  readonly day: string;
  readonly usd: number;
}

export interface IModelSum {
  readonly brain: string;
  readonly model: string;
  readonly runs: number;
  /** Null when no run of it has a price. */
  readonly usd: number | null;
}

/** A sum for each of the last days, those without a run too, the oldest first. */
export function costByDay(rows: readonly IDayCost[], now: number, days: number): readonly IDaySum[] {
  const sums = new Map<string, number>();
  for (const row of rows) {
    sums.set(row.day, (sums.get(row.day) ?? 0) + (row.usd ?? 0));
  }
  return Array.from({ length: days }, (_, index) => {
    const day = new Date(now - (days - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return { day, usd: sums.get(day) ?? 0 };
  });
}

/** A sum for each brain and model, the dearest first. What is not known counts as nothing unless all of it is unknown. */
export function costByModel(rows: readonly IDayCost[]): readonly IModelSum[] {
  const sums = new Map<string, IModelSum>();
  for (const { brain, model, runs, usd } of rows) {
    const key = JSON.stringify([brain, model]);
    const sum = sums.get(key) ?? { brain, model, runs: 0, usd: null };
    sums.set(key, { ...sum, runs: sum.runs + runs, usd: usd === null ? sum.usd : (sum.usd ?? 0) + usd });
  }
  return [...sums.values()].sort((one, other) => (other.usd ?? 0) - (one.usd ?? 0));
}
