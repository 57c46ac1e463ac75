/**
 * How plugins stand, in words.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IPluginPermissions, IPlugin } from '../api/schema.js';
import type { PluginDeed } from '../tokens.js';
import type { IAsked } from './plugins.js';
import { visible } from './visible.js';
import { problemWords, type Tone } from './words.js';

/** Where a plugin is in the session. */
export function pluginState(trans: TranslationBundle, plugin: IPlugin): { word: string; tone: Tone | '' } {
  if (plugin.problem) {
    return { word: trans.__('Cannot be used'), tone: 'bad' };
  }
  if (plugin.changed && plugin.state !== 'quarantined') {
    return { word: trans.__('Off: its files have changed'), tone: 'warn' };
  }
  switch (plugin.state) {
    case 'enabled':
      return { word: trans.__('Enabled'), tone: 'good' };
    case 'quarantined':
      return { word: trans.__('In quarantine'), tone: 'bad' };
    case 'configured':
      return { word: trans.__('Configured'), tone: '' };
    case 'disabled':
      return { word: trans.__('Off'), tone: '' };
    case 'audited':
      return { word: trans.__('Audited'), tone: '' };
    case 'discovered':
      return { word: trans.__('Not audited'), tone: '' };
    default:
      return { word: visible(plugin.state), tone: 'warn' };
  }
}

/** What goes on about a plugin whose files have changed; null while nothing does. */
export function reloadWords(
  trans: TranslationBundle,
  { changed, audit_run: run }: IPlugin
): { words: string; tone: Tone } | null {
  // No event of a run has plugins fetched again, so that nothing is said of how far it has come.
  return changed && run?.live
    ? { words: trans.__('It is audited anew, and you are asked: see Approvals.'), tone: 'ask' }
    : null;
}

/** What an audit says as a whole. */
export function riskWords(trans: TranslationBundle, risk: string): { word: string; tone: Tone } {
  switch (risk) {
    case 'LOW':
      return { word: trans.__('Low risk'), tone: 'good' };
    case 'UNKNOWN':
      return { word: trans.__('Risk unknown'), tone: 'warn' };
    case 'MEDIUM':
      return { word: trans.__('Medium risk'), tone: 'warn' };
    case 'HIGH':
      return { word: trans.__('High risk'), tone: 'bad' };
    case 'CRITICAL':
      return { word: trans.__('Critical risk'), tone: 'bad' };
    default:
      return { word: visible(risk), tone: 'bad' };
  }
}

/** Where it lies. */
export function placeWords(trans: TranslationBundle, place: string): string {
  switch (place) {
    case 'bundled':
      return trans.__('comes with kagura');
    case 'user':
      return trans.__('your own');
    case 'project':
      return trans.__('of this project');
    default:
      return visible(place);
  }
}

/** What permissions open, a line each; empty when they open nothing. */
export function permissionWords(
  trans: TranslationBundle,
  { read, write, net }: IPluginPermissions
): string[] {
  const line = (word: string, entries: readonly string[]) =>
    entries.length > 0 ? [`${word} ${entries.map(visible).join(', ')}`] : [];
  return [
    ...line(trans.__('reads'), read),
    ...line(trans.__('writes'), write),
    ...line(trans.__('reaches'), net)
  ];
}

/** The fields of its configuration that its permissions name, as what could be typed. */
export function settingsHint({ permissions: { read, write, net } }: IPlugin): string {
  const named = [...read, ...write, ...net].flatMap(entry =>
    [...entry.matchAll(/\{(\w+)\}/gu)].map(found => found[1] ?? '')
  );
  return [...new Set(named)].map(name => `${name}=…`).join(' ') || 'field=value';
}

/** What has become of a word that was left, and how to go on. */
export function askedWords(
  trans: TranslationBundle,
  plugin: IPlugin,
  asked: IAsked
): { words: string; tone: Tone } {
  const logs = `%kagura plugin logs ${visible(plugin.name)}`;
  switch (asked.stage) {
    case 'sending':
      return { words: trans.__('Asking …'), tone: 'busy' };
    case 'asked':
      return { words: trans.__('Asked for. The kernel hears it within two seconds.'), tone: 'busy' };
    case 'late':
      return {
        words: trans.__(
          'The kernel has not heard it yet. It listens from its first cell with kagura on: run one, or interrupt what keeps it busy. After five minutes this counts no more.'
        ),
        tone: 'warn'
      };
    case 'working':
      return {
        words:
          asked.deed === 'audit'
            ? trans.__('The kernel is auditing it. The audit stands under Runs.')
            : trans.__('The kernel has heard it and is at work.'),
        tone: 'busy'
      };
    case 'waits':
      return { words: trans.__('It waits for your answer: see Approvals.'), tone: 'ask' };
    case 'idle':
      return {
        words: trans.__(
          'The kernel has heard it, and nothing came of it. Run %1 in the notebook to see why.',
          logs
        ),
        tone: 'warn'
      };
    case 'failed':
      return { words: visible(asked.reason), tone: 'bad' };
    case 'refused':
      return { words: asked.problem ? problemWords(trans, asked.problem) : '', tone: 'bad' };
  }
}

/** Said once a word was carried out. */
export function doneWords(trans: TranslationBundle, plugin: IPlugin, deed: PluginDeed): string {
  const name = visible(plugin.name);
  switch (deed) {
    case 'enable':
      return trans.__('%1 is enabled in this session.', name);
    case 'disable':
      return trans.__('%1 is disabled.', name);
    case 'approve':
      return trans.__('%1 is approved for later sessions, until one of its files changes.', name);
    case 'unapprove':
      return trans.__('%1 is approved no longer.', name);
    case 'audit':
      return trans.__('%1 was audited: %2.', name, riskWords(trans, plugin.risk ?? '').word);
  }
}
