/**
 * The words of the sidebar: what the server tells, what a section is, and the names others may use.
 *
 * Field names are those of the REST interface, so that a value is the same on both sides.
 */
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { ReactNode } from 'react';

/** The schema of the events that say what to fetch again. */
export const EVENT_SCHEMA = 'https://github.com/kagura-ai/kagura-kernel/events/journal/v1';

/** The domain of the translations. */
export const TRANSLATION_DOMAIN = 'kagura_kernel';

/** The id of the panel in the shell. */
export const PANEL_ID = 'kagura-sidebar';

/** What changed in the journal. */
export type Topic = 'runs' | 'approvals' | 'leases' | 'costs' | 'plugins' | 'memories';

export const TOPICS: readonly Topic[] = ['runs', 'approvals', 'leases', 'costs', 'plugins', 'memories'];

/** One event of the journal, as the server announces it. */
export interface IChange {
  topic: Topic;
  seq: number;
  run_id: string;
  approval_id: string;
}

/** The cell that something came from; empty strings where it came from no notebook. */
export interface IOrigin {
  readonly notebook: string;
  readonly kernel_id: string;
  readonly cell_id: string;
}

export type Verdict = 'allow' | 'deny' | 'abort';

/** What a session can be told about a plugin. */
export type PluginDeed = 'audit' | 'enable' | 'disable' | 'approve' | 'unapprove';

/** How far a memory is trusted. */
export type Tier = 'trusted' | 'quarantine';

/** What a person does to a memory that stays. */
export type MemoryDeed = 'promote' | 'demote' | 'pin' | 'unpin' | 'forget' | 'restore';

/** One page of a list; `next` is the cursor of the page after it. */
export interface IPage<T> {
  items: readonly T[];
  next: string | null;
}

/**
 * One section of the panel: approvals, runs, plugins, memories, leases, costs, or one of another extension.
 *
 * A further section is one more value of this type, given to `ISections.add`.
 */
export interface ISection {
  /** Unique; it is also what the panel remembers of it. */
  readonly id: string;
  /** Its heading, translated. */
  readonly title: string;
  /** Sections stand in the order of their ranks; ours are 100, 200, 250, 275, 300 and 400. */
  readonly rank: number;
  /** Whether it reaches from edge to edge, as a list of rows does. */
  readonly isWide?: boolean;
  /** Whether it stands below the others and stays in sight when they are scrolled. */
  readonly stays?: boolean;
  /** Stands behind the heading, such as how many wait; an empty string is nothing. */
  readonly badge?: () => string;
  /** Emitted when the badge is to be read again. */
  readonly changed?: ISignal<unknown, unknown>;
  /** What stands below the heading while the section is open. */
  readonly render: () => ReactNode;
}

/** Where sections are announced, at any time; disposing of the result takes one away again. */
export interface ISections {
  add(section: ISection): IDisposable;
}

/** For other extensions: `import { ISections } from 'kagura-kernel'`. */
export const ISections = new Token<ISections>(
  'kagura-kernel:ISections',
  'The sections of the panel with the agent runs.'
);
