import type { IApproval } from '../tokens.js';

/**
 * What an approval would let happen, taken apart for reading: the very values that would be used. A text composed of several of
 * them is never taken apart again, because what a model writes could imitate the seams.
 */
export interface IAsked {
  /** The whole command, host or text. */
  readonly subject: string;
  /** What a command would read; empty without. */
  readonly stdin: string;
  /** The directory on the host that it would work in; empty where there is none. */
  readonly place: string;
  /** What it would mean, in the words of whoever composed the question; empty where the subject is all. */
  readonly means: string;
}

/** Whether it is about one host and port, known apart. */
export function asksForHost({ kind, arguments: given }: IApproval): boolean {
  return kind === 'network' && typeof given.host === 'string' && typeof given.port === 'number';
}

export function asked(approval: IApproval): IAsked {
  const { host, port, command, stdin, directory } = approval.arguments;
  if (asksForHost(approval)) {
    const name = String(host);
    return {
      subject: name.includes(':') ? `[${name}]:${String(port)}` : `${name}:${String(port)}`,
      stdin: '',
      place: '',
      means: approval.detail
    };
  }
  if (approval.kind === 'host_command' && typeof command === 'string') {
    return { subject: command, stdin: written(stdin), place: written(directory), means: '' };
  }
  return { subject: approval.detail, stdin: '', place: '', means: '' };
}

/** The exact arguments, as JSON; empty when there are none. */
export function argumentsText(approval: IApproval): string {
  return Object.keys(approval.arguments).length > 0 ? JSON.stringify(approval.arguments, null, 2) : '';
}

/** The options with which membrane and toolsets ask; others are shown as they are. */
export const THIS_CALL = 'this call';
export const THIS_RUN = 'this run';
export const THIS_SESSION = 'this session';
/** An option that refuses, and is a denial. */
export const NEVER = 'never';

function written(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
