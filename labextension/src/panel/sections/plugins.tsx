import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useId, useRef, useState } from 'react';
import type { Kagura } from '../../model/kagura.js';
import { keyOf } from '../../model/plugins.js';
import {
  askedWords,
  doneWords,
  placeWords,
  pluginState,
  reloadWords,
  riskWords
} from '../../model/pluginWords.js';
import { oneLine, visible } from '../../model/visible.js';
import type { IPlugin } from '../../api/schema.js';
import type { ISection } from '../../tokens.js';
import { usePanel } from '../context.js';
import { type IRovingItem, onActivate, useClaimedFocus, useRoving, useSignal } from '../hooks.js';
import { Empty, notebookName, Problem } from '../parts.js';
import { PluginActs } from './pluginActs.js';
import { PluginDetails } from './pluginDetails.js';

export const PLUGINS_ID = 'plugins';

/** The plugins that the notebook in front can have, what their audits say, and what its session is told about them. */
export function pluginsSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: PLUGINS_ID,
    title: trans.__('Plugins'),
    rank: 250,
    badge: () => {
      const enabled = kagura.plugins.items.filter(plugin => plugin.state === 'enabled').length;
      return enabled > 0 ? trans.__('%1 enabled', enabled) : '';
    },
    changed: kagura.plugins.changed,
    render: () => <Plugins />
  };
}

function Plugins() {
  const { kagura, trans } = usePanel();
  const model = kagura.plugins;
  useSignal(model.changed);
  const { items } = model;
  const roving = useRoving(items.length);
  return (
    <>
      <Announcer />
      <Problem problem={model.problem} />
      {model.loaded && <WhichSession />}
      {items.length === 0 && model.loaded && (
        <Empty title={trans.__('No plugin is known here')}>
          {trans.__(
            'A plugin gives programs in a box a function that they could not have alone. Those that kagura finds stand here once a notebook has run %1.',
            '%kagura plugin list'
          )}
        </Empty>
      )}
      {items.length > 0 && (
        <ul className="kgs-plugins" aria-label={trans.__('Plugins')} onKeyDown={roving.onKeyDown}>
          {items.map((plugin, index) => (
            <Plugin key={keyOf(plugin)} plugin={plugin} {...roving.item(index)} />
          ))}
        </ul>
      )}
    </>
  );
}

/** Reads out what was carried out; it is seen in the row. */
function Announcer() {
  const { kagura, trans } = usePanel();
  const model = kagura.plugins;
  const [words, setWords] = useState('');
  useEffect(() => {
    const slot: Parameters<typeof model.done.connect>[0] = (_, { plugin, deed }) =>
      setWords(doneWords(trans, plugin, deed));
    model.done.connect(slot);
    return () => void model.done.disconnect(slot);
  }, [model, trans]);
  return (
    <div className="kgs-unseen" aria-live="polite">
      {words}
    </div>
  );
}

/** Whose plugins these are; where nobody would hear a word, what to do about it. */
function WhichSession() {
  const { kagura, trans } = usePanel();
  const { session, notebook } = kagura.plugins;
  if (session?.live) {
    const name = notebookName(notebook) || notebookName(session.notebook);
    return (
      <p className="kgs-soft kgs-whose">{trans.__('In the session of %1', name || session.session_id)}</p>
    );
  }
  if (!notebook) {
    return (
      <p className="kgs-soft kgs-whose">
        {trans.__('Bring a notebook to the front to audit and enable plugins for its session.')}
      </p>
    );
  }
  return (
    <p className="kgs-problem kgs-whose">
      {trans.__(
        'The kernel of %1 has begun no run since it started, so nothing can be enabled in it yet. Run a cell first, such as one that begins with %2.',
        notebookName(notebook),
        '%%sandbox'
      )}
    </p>
  );
}

interface IPluginProps extends IRovingItem {
  readonly plugin: IPlugin;
}

function Plugin({ plugin, current, claimsFocus, onFocus }: IPluginProps) {
  const { kagura, trans } = usePanel();
  const model = kagura.plugins;
  const item = useRef<HTMLLIElement>(null);
  const body = useId();
  const open = model.isOpen(plugin);
  const tab = current ? 0 : -1;
  const { word, tone } = pluginState(trans, plugin);
  useClaimedFocus(item, claimsFocus);
  const toggle = () => model.setOpen(plugin, !open);
  return (
    <li
      ref={item}
      className={open ? 'kgs-plugin kgs-plugin-open' : 'kgs-plugin'}
      tabIndex={tab}
      data-item=""
      data-plugin={visible(plugin.name)}
      aria-label={spoken(trans, plugin)}
      onFocus={onFocus}
      onKeyDown={onActivate(toggle)}
    >
      <div className="kgs-plugin-top">
        <button
          type="button"
          className="kgs-fold"
          aria-expanded={open}
          aria-controls={open ? body : undefined}
          tabIndex={tab}
          onClick={toggle}
        >
          <strong className="kgs-title">{visible(plugin.name)}</strong>
          {plugin.version && <span className="kgs-soft">{visible(plugin.version)}</span>}
        </button>
        <span className="kgs-spring" />
        <Risk plugin={plugin} />
      </div>
      <div className="kgs-facts">
        <span className={tone ? `kgs-tone-${tone}` : ''}>{word}</span>
        {plugin.approved && <span className="kgs-tone-good">{trans.__('Approved')}</span>}
        <span>{placeWords(trans, plugin.place)}</span>
        {plugin.update && (
          <span className="kgs-tone-busy">{trans.__('%1 can be had', visible(plugin.update))}</span>
        )}
        {!open && plugin.description && <span className="kgs-cut">{oneLine(plugin.description, 90)}</span>}
      </div>
      <Asked plugin={plugin} />
      {open && (
        <div id={body} className="kgs-plugin-body">
          <PluginDetails plugin={plugin} />
        </div>
      )}
      <PluginActs plugin={plugin} tabIndex={tab} />
    </li>
  );
}

function Risk({ plugin }: { readonly plugin: IPlugin }) {
  const { trans } = usePanel();
  if (plugin.risk === null) {
    return null;
  }
  const { word, tone } = riskWords(trans, plugin.risk);
  return (
    <span
      className={`kgs-risk kgs-tone-${tone}`}
      title={plugin.static_only ? trans.__('By the scan alone: no brain has looked') : undefined}
    >
      {plugin.static_only ? trans.__('%1, scan alone', word) : word}
    </span>
  );
}

/** What has become of the last word; read out when it changes. */
function Asked({ plugin }: { readonly plugin: IPlugin }) {
  const { kagura, trans } = usePanel();
  const asked = kagura.plugins.asked(plugin);
  const told = asked ? askedWords(trans, plugin, asked) : reloadWords(trans, plugin);
  const grave = told !== null && told.tone !== 'busy';
  return (
    <div role="status">
      {told && <p className={grave ? 'kgs-problem' : `kgs-asked kgs-tone-${told.tone}`}>{told.words}</p>}
    </div>
  );
}

function spoken(trans: TranslationBundle, plugin: IPlugin): string {
  const risk = plugin.risk === null ? '' : riskWords(trans, plugin.risk).word;
  const approved = plugin.approved ? trans.__('Approved') : '';
  return [visible(plugin.name), pluginState(trans, plugin).word, risk, approved].filter(Boolean).join(', ');
}
