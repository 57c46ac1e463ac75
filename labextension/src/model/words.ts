/**
 * Figures, states and decisions in words, as the cards of a notebook have them.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IProblem } from '../api/result.js';
import type { IApproval, IDecision } from '../api/schema.js';
import type { Remark } from './approvals.js';
import { visible } from './visible.js';

const MINUTE = 60;
const HOUR = 3600;
const DAY = 24 * HOUR;

/** `0:42`, `1:02:03`, for counting up and down; seconds. */
export function clockFace(value: number): string {
  const whole = Math.max(0, Math.floor(value));
  const rest = String(whole % MINUTE).padStart(2, '0');
  const minutes = Math.floor(whole / MINUTE);
  return whole < HOUR
    ? `${minutes}:${rest}`
    : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${rest}`;
}

/** `40 ms`, `0.3 s`, `42 s`, `3 min 05 s`, `2 h 07 min`. */
export function lasted(value: number): string {
  if (value < 0.1) {
    return `${Math.round(value * 1000)} ms`;
  }
  if (value < 10) {
    return `${value.toFixed(1)} s`;
  }
  if (value < MINUTE) {
    return `${Math.floor(value)} s`;
  }
  const minutes = Math.floor(value / MINUTE);
  return value < HOUR
    ? `${minutes} min ${String(Math.floor(value) % MINUTE).padStart(2, '0')} s`
    : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
}

/** A length of time without false precision: `40 s`, `12 min`, `1 h 05 min`. */
export function span(value: number): string {
  const whole = Math.max(0, Math.round(value));
  if (whole < 2 * MINUTE) {
    return `${whole} s`;
  }
  const minutes = Math.floor((whole % HOUR) / MINUTE);
  if (whole < HOUR) {
    return `${minutes} min`;
  }
  return `${Math.floor(whole / HOUR)} h${minutes > 0 ? ` ${String(minutes).padStart(2, '0')} min` : ''}`;
}

/** `$0.0132`; empty when unknown, which is not the same as nothing. */
export function money(usd: number | null): string {
  if (usd === null) {
    return '';
  }
  return usd >= 1 || usd === 0 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(4)}`;
}

/** A sum for a place with little room: `$0.03`, and `<$0.01` for what is not nothing. */
export function roundMoney(usd: number): string {
  return usd > 0 && usd < 0.01 ? '<$0.01' : `$${usd.toFixed(2)}`;
}

/** An amount to be agreed to as it stands in its field: its cents, and two further digits where it has them. */
export function exactMoney(usd: number): string {
  const cents = usd.toFixed(2);
  return Number(cents) === usd ? cents : usd.toFixed(4).replace(/0+$/, '');
}

/** When something was, `seconds` ago, without false precision. */
export function ago(trans: TranslationBundle, seconds: number): string {
  if (seconds < MINUTE) {
    return trans.__('just now');
  }
  if (seconds < HOUR) {
    return trans.__('%1 min ago', Math.floor(seconds / MINUTE));
  }
  if (seconds < DAY) {
    return trans.__('%1 h ago', Math.floor(seconds / HOUR));
  }
  const days = Math.floor(seconds / DAY);
  return trans._n('yesterday', '%1 days ago', days, days);
}

export type Tone = 'busy' | 'ask' | 'good' | 'bad' | 'warn';

/** How a run stands: the word and the colour that goes with it, as its card has them (`views/status.py`). */
export function runState(trans: TranslationBundle, status: string): { word: string; tone: Tone } {
  switch (status) {
    case 'running':
      return { word: trans.__('Running'), tone: 'busy' };
    case 'awaiting_approval':
      return { word: trans.__('Waiting for you'), tone: 'ask' };
    case 'done':
      return { word: trans.__('Done'), tone: 'good' };
    case 'failed':
      return { word: trans.__('Failed'), tone: 'bad' };
    case 'stopped':
      return { word: trans.__('Limit reached'), tone: 'warn' };
    case 'killed':
      return { word: trans.__('Stopped'), tone: 'warn' };
    case 'denied':
      return { word: trans.__('Denied'), tone: 'warn' };
    case 'lost':
      return { word: trans.__('Lost'), tone: 'bad' };
    default:
      return { word: visible(status), tone: 'warn' };
  }
}

/** What kind of power an approval is about, and what giving it would mean. */
export function kindWords(trans: TranslationBundle, kind: string): { label: string; meaning: string } {
  switch (kind) {
    case 'launch':
      return {
        label: trans.__('Launch'),
        meaning: trans.__('The run would start with all of this, which is more than an ordinary run has.')
      };
    case 'host_command':
      return {
        label: trans.__('Host command'),
        meaning: trans.__('It would run on this computer with your rights, outside the box.')
      };
    case 'network':
      return {
        label: trans.__('Network'),
        meaning: trans.__('It would let programs in the box connect there.')
      };
    case 'credential':
      return {
        label: trans.__('Credential'),
        meaning: trans.__(
          'It would let the run hold this credential; a fresh one is made as long as the budget lasts.'
        )
      };
    case 'plugin':
      return {
        label: trans.__('Plugin'),
        meaning: trans.__(
          'Enable lets programs in the boxes of this session call it. Approve also trusts exactly these files in later sessions.'
        )
      };
    case 'tool':
      return {
        label: trans.__('Tool'),
        meaning: trans.__('It would call this tool with exactly these arguments.')
      };
    case 'write':
      return { label: trans.__('Write'), meaning: trans.__('It would change files of the project.') };
    case 'plan':
      return {
        label: trans.__('Plan'),
        meaning: trans.__('The run would begin, and stop before it costs more than its budget.')
      };
    case 'trust':
      return {
        label: trans.__('Trust'),
        meaning: trans.__('You would not be asked about this any more, until something of it fails.')
      };
    case 'question':
      return {
        label: trans.__('Question'),
        meaning: trans.__('The agent asks you something and waits for the answer.')
      };
    default:
      return { label: visible(kind), meaning: '' };
  }
}

/** How an approval ended, in words, and whether it granted anything. */
export function decisionWords(
  trans: TranslationBundle,
  kind: string,
  decision: Pick<IDecision, 'verdict' | 'by' | 'via' | 'answer'>
): { words: string; tone: Tone } {
  const by = visible(decision.by);
  switch (decision.verdict) {
    case 'allow':
      return {
        words:
          kind === 'question'
            ? trans.__('Answered by %1%2', by, place(trans, decision.via))
            : trans.__('Allowed by %1%2', by, place(trans, decision.via)),
        tone: 'good'
      };
    case 'timeout':
      return { words: trans.__('Denied, because nobody answered in time'), tone: 'bad' };
    case 'aborted':
      return { words: trans.__('Called off'), tone: 'warn' };
    default:
      return decision.via === 'policy'
        ? { words: trans.__('Denied by policy'), tone: 'bad' }
        : { words: trans.__('Denied by %1%2', by, place(trans, decision.via)), tone: 'bad' };
  }
}

/** What is to be said of an answer that did not count, as a sentence. */
export function remarkWords(trans: TranslationBundle, approval: IApproval, remark: Remark): string {
  return 'faster' in remark
    ? trans.__('Somebody was faster. %1.', decisionWords(trans, approval.kind, remark.faster).words)
    : problemWords(trans, remark.problem);
}

/** A problem as a sentence: what happened and what to do next. */
export function problemWords(trans: TranslationBundle, problem: IProblem): string {
  switch (problem.kind) {
    case 'unreachable':
      return trans.__('The Jupyter server does not answer. This list is as it was; it is asked for again.');
    case 'refused':
      return trans.__('The Jupyter server refused. Reload the page to sign in again.');
    case 'missing':
      return problem.message
        ? visible(problem.message)
        : trans.__(
            'The server side of kagura-kernel is not running. Install kagura-kernel where Jupyter runs and start it again.'
          );
    default:
      return problem.message
        ? visible(problem.message)
        : trans.__('The Jupyter server could not do this (%1). Its log says more.', problem.status);
  }
}

function place(trans: TranslationBundle, via: string): string {
  switch (via) {
    case 'cell':
      return trans.__(', in the cell');
    case 'command':
      return trans.__(', by command');
    case 'sidebar':
      return trans.__(', in the sidebar');
    case 'terminal':
      return trans.__(', in a terminal');
    default:
      return '';
  }
}
