import type { IAnswer, IRequest } from '../api/client.js';

/** A row as a server has it. */
export interface IRow {
  [name: string]: unknown;
}

/** An answer with an ETag, or that there is nothing new. */
export function fresh(request: IRequest, value: unknown): IAnswer {
  const etag = `"${JSON.stringify(value)}"`;
  return request.headers['If-None-Match'] === etag
    ? plain(304, '')
    : plain(200, JSON.stringify(value), { ETag: etag });
}

export function json(status: number, value: unknown): IAnswer {
  return plain(status, JSON.stringify(value));
}

export function plain(status: number, text: string, headers: Record<string, string> = {}): IAnswer {
  return { status, headers: { get: name => headers[name] ?? null }, text: () => Promise.resolve(text) };
}
