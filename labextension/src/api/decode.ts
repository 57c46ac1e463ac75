/**
 * JSON from the server as values of ours. What is missing or of another type gets a harmless default, so that an older or newer
 * server never breaks the page.
 */
import { TOPICS, type IChange, type Topic } from '../tokens.js';

export type Reader<T> = (value: unknown) => T;
type Fields = Readonly<Record<string, unknown>>;

export function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function text(value: unknown): string {
  return textOrNull(value) ?? '';
}

export function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

export function number(value: unknown): number {
  return numberOrNull(value) ?? 0;
}

export function flagOrNull(value: unknown): boolean | null {
  return typeof value === 'boolean' ? value : null;
}

export function flag(value: unknown): boolean {
  return value === true;
}

/** A boolean that is this where it cannot be read. */
export function otherwise(none: boolean): Reader<boolean> {
  return value => flagOrNull(value) ?? none;
}

/** One of these words, or else that one. */
export function oneOf<T extends string>(words: readonly T[], none: T): Reader<T> {
  return value => words.find(word => word === value) ?? none;
}

export function nothing(): null {
  return null;
}

/** An object of these fields. */
export function object<T>(readers: { readonly [K in keyof T]: Reader<T[K]> }): Reader<T> {
  const known = Object.entries(readers) as [keyof T & string, Reader<T[keyof T]>][];
  return value => {
    const from = fields(value);
    return Object.fromEntries(known.map(([name, read]) => [name, read(from[name])])) as T;
  };
}

/** An object of the fields of two. */
export function both<A, B>(first: Reader<A>, second: Reader<B>): Reader<A & B> {
  return value => ({ ...first(value), ...second(value) });
}

/** A list without empty texts, and without objects whose key is empty. */
export function listOf<T>(read: Reader<T>, key?: keyof T & string): Reader<readonly T[]> {
  return value =>
    (Array.isArray(value) ? value : []).map(read).filter(item => (key ? item[key] : item !== ''));
}

/** An object, or null where there is none, or its key is missing. */
export function orNull<T>(read: Reader<T>, key?: keyof T & string): Reader<T | null> {
  return value => {
    const from = fields(value);
    return from === value && (!key || (from[key] ?? '') !== '') ? read(value) : null;
  };
}

export function mapOf<T>(read: Reader<T>): Reader<Readonly<Record<string, T>>> {
  return value => Object.fromEntries(Object.entries(fields(value)).map(([name, told]) => [name, read(told)]));
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
