import type { IApproval } from '../api/schema.js';

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
