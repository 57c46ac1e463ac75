/**
 * Errors as values: a call to the server gives what was asked for or says in a sentence why not.
 */

export type ProblemKind = 'unreachable' | 'refused' | 'missing' | 'conflict' | 'failed';

export interface IProblem {
  readonly kind: ProblemKind;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** The stable name the server gave it; empty without. */
  readonly code: string;
  /** The server's own sentence; empty without. It may quote what a box or a model wrote. */
  readonly message: string;
  /** The answer's body, for what a conflict brings along. */
  readonly body: unknown;
}

export type Result<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: IProblem };

export function good<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function bad<T>(
  kind: ProblemKind,
  status: number,
  { code = '', message = '', body = null }: { code?: string; message?: string; body?: unknown } = {}
): Result<T> {
  return { ok: false, problem: { kind, status, code, message, body } };
}

export function kindOf(status: number): ProblemKind {
  switch (status) {
    case 0:
      return 'unreachable';
    case 401:
    case 403:
      return 'refused';
    case 404:
      return 'missing';
    case 409:
      return 'conflict';
    default:
      return 'failed';
  }
}
