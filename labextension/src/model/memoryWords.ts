/** Memories and what is done to them, in words. */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IMemoryGrown, IMemory, IMemoryFacts, INeighbour } from '../api/schema.js';
import type { Tier } from '../tokens.js';
import type { IMemoryDone } from './memories.js';
import { oneLine, visible } from './visible.js';
import type { Tone } from './words.js';

/** Types that the engine knows; others are a person's own. */
export const TYPES = ['note', 'lesson', 'fix', 'outcome', 'task', 'decision'] as const;

/** Whether a word can be a type; another one cannot be looked for. */
export function isType(word: string): boolean {
  return /^[a-z0-9-]{1,48}$/.test(word);
}

const SHOWN_MATCHES = 4;

export function tierWords(
  trans: TranslationBundle,
  tier: Tier
): { word: string; meaning: string; tone: Tone } {
  return tier === 'trusted'
    ? {
        word: trans.__('Trusted'),
        meaning: trans.__('A person vouched for it, or an outcome that nobody could forge.'),
        tone: 'good'
      }
    : {
        word: trans.__('Quarantine'),
        meaning: trans.__('An agent wrote it, or it came from outside, and nobody has vouched for it.'),
        tone: 'warn'
      };
}

export function typeWords(trans: TranslationBundle, type: string): string {
  switch (type) {
    case 'note':
      return trans.__('Note');
    case 'lesson':
      return trans.__('Lesson');
    case 'fix':
      return trans.__('Fix');
    case 'outcome':
      return trans.__('Outcome');
    case 'task':
      return trans.__('Task');
    case 'decision':
      return trans.__('Decision');
    default:
      return visible(type);
  }
}

/** Who said it: `ada`, `the agent claude`, `the engine`. */
export function sourceWords(trans: TranslationBundle, { author, by }: IMemoryFacts): string {
  const name = oneLine(by, 40);
  switch (author) {
    case 'human':
      return name || trans.__('a person');
    case 'agent':
      return name ? trans.__('the agent %1', name) : trans.__('an agent');
    case 'engine':
      return trans.__('the engine');
    case 'import':
      return name ? trans.__('imported by %1', name) : trans.__('imported');
    default:
      return visible(author);
  }
}

/** What matched, on one line; empty where nothing was searched for. */
export function whyWords(trans: TranslationBundle, { why }: IMemory): string {
  const words = why.slice(0, SHOWN_MATCHES).map(word => {
    switch (word) {
      case 'neighbour':
        return trans.__('what stands beside it');
      case 'meaning':
        return trans.__('its meaning');
      default:
        return oneLine(word, 40);
    }
  });
  return words.length > 0 ? trans.__('Found by: %1', words.join(', ')) : '';
}

/** How a neighbour is joined to the memory that is looked at. */
export function edgeWords(trans: TranslationBundle, { edge, away }: INeighbour): string {
  switch (edge) {
    case 'prevents':
      return away ? trans.__('Prevents') : trans.__('Prevented by');
    case 'fixes':
      return away ? trans.__('Fixes') : trans.__('Fixed by');
    case 'supports':
      return away ? trans.__('Supports') : trans.__('Supported by');
    case 'contradicts':
      return away ? trans.__('Contradicts') : trans.__('Contradicted by');
    case 'follows':
      return away ? trans.__('Follows') : trans.__('Followed by');
    case 'came-from':
      return away ? trans.__('Came from') : trans.__('Led to');
    case 'related':
      return trans.__('Related');
    default:
      return visible(edge);
  }
}

/** What an erasure would remove, beside the memory itself, each a part of a list. */
export function grownWords(
  trans: TranslationBundle,
  { memories, edges, checkpoints, runs }: IMemoryGrown
): string[] {
  const others = memories.length - 1;
  return [
    others > 0 &&
      trans._n('%1 other memory that came from it', '%1 other memories that came from it', others, others),
    edges > 0 && trans._n('%1 edge between memories', '%1 edges between memories', edges, edges),
    checkpoints > 0 &&
      trans._n(
        '%1 checkpoint of a run, which cannot be resumed from there any more',
        '%1 checkpoints of runs, which cannot be resumed from there any more',
        checkpoints,
        checkpoints
      ),
    runs.length > 0 && trans.__('Runs that it is about: %1', runs.map(visible).join(', '))
  ].filter(part => part !== false);
}

/** What was done, as a sentence. */
export function doneWords(trans: TranslationBundle, { memory, deed }: IMemoryDone): string {
  const name = oneLine(memory.summary, 80);
  switch (deed) {
    case 'promote':
      return trans.__('Trusted from now on: %1', name);
    case 'demote':
      return trans.__('In quarantine from now on: %1', name);
    case 'pin':
      return trans.__('Every run starts with it: %1', name);
    case 'unpin':
      return trans.__('No run starts with it any more: %1', name);
    case 'forget':
      return trans.__('Forgotten: %1', name);
    case 'restore':
      return trans.__('Restored: %1', name);
    default:
      return trans.__('Erased, with all that came from it: %1', name);
  }
}
