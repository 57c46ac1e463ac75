import type { TranslationBundle } from '@jupyterlab/translation';
import { useCallback, useEffect, useRef, useState, type KeyboardEvent } from 'react';
import type { Kagura } from '../../model/kagura.js';
import type { MemoryTab } from '../../model/memories.js';
import { doneWords, isType, tierWords, TYPES, typeWords } from '../../model/memoryWords.js';
import { oneLine } from '../../model/visible.js';
import type { ISection, Tier } from '../../tokens.js';
import { usePanel } from '../context.js';
import { useSignal } from '../hooks.js';
import { Button, Empty, Problem } from '../parts.js';
import { SearchField } from '../searchField.js';
import { FewRows } from '../virtualList.js';
import { Lessons } from './lessons.js';
import { MemoryDetails } from './memoryDetails.js';
import { MemoryRow } from './memoryRow.js';

export const MEMORIES_ID = 'memories';

const ROW_HEIGHT = 94;
const TABS: readonly MemoryTab[] = ['memories', 'lessons'];

/** What is remembered from run to run: to be searched, trusted, pinned, forgotten and erased. */
export function memoriesSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: MEMORIES_ID,
    title: trans.__('Memory'),
    rank: 275,
    isWide: true,
    badge: () => {
      const { counts } = kagura.memories;
      return counts && counts.memories > 0 ? counts.memories.toLocaleString() : '';
    },
    changed: kagura.memories.changed,
    render: () => <Memories />
  };
}

function Memories() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  useSignal(model.changed);
  const search = useCallback((words: string) => void model.search({ words }), [model]);
  const label = model.tab === 'lessons' ? trans.__('Search the lessons') : trans.__('Search the memory');
  return (
    <div className="kgs-memories">
      <Announcer />
      <Tabs />
      <SearchField label={label} words={model.filter.words} onSearch={search} />
      {model.tab === 'memories' && <Filters />}
      <Problem problem={model.problem} />
      <Undo />
      <div
        role="tabpanel"
        id="kgs-memory-panel"
        className="kgs-memory-panel"
        aria-labelledby={tabId(model.tab)}
      >
        {model.tab === 'lessons' ? <Lessons /> : <List />}
      </div>
      {model.open && <MemoryDetails key={model.open.id} memory={model.open} />}
    </div>
  );
}

function tabId(tab: MemoryTab): string {
  return `kgs-memory-tab-${tab}`;
}

/** One stop of the Tab key; the arrow keys change between the two. */
function Tabs() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const list = useRef<HTMLDivElement>(null);
  const words: Record<MemoryTab, string> = { memories: trans.__('Memories'), lessons: trans.__('Lessons') };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      event.preventDefault();
      const other = model.tab === 'lessons' ? 'memories' : 'lessons';
      void model.show(other);
      list.current?.querySelector<HTMLElement>(`#${tabId(other)}`)?.focus();
    }
  };
  return (
    <div ref={list} className="kgs-tabs" role="tablist" aria-label={trans.__('Memory')} onKeyDown={onKeyDown}>
      {TABS.map(tab => (
        <button
          key={tab}
          type="button"
          role="tab"
          id={tabId(tab)}
          className="kgs-tab"
          aria-selected={model.tab === tab}
          aria-controls="kgs-memory-panel"
          tabIndex={model.tab === tab ? 0 : -1}
          onClick={() => void model.show(tab)}
        >
          {words[tab]}
        </button>
      ))}
    </div>
  );
}

function Filters() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const { type, tier } = model.filter;
  // A person's own types are known once one of them is in the list.
  const types = [...new Set([...TYPES, ...model.items.map(memory => memory.type), type])].filter(isType);
  const tiers: readonly Tier[] = ['trusted', 'quarantine'];
  return (
    <div className="kgs-filters">
      <select
        className="kgs-input"
        aria-label={trans.__('Only of this type')}
        value={type}
        onChange={event => void model.search({ type: event.target.value })}
      >
        <option value="">{trans.__('Any type')}</option>
        {types.map(one => (
          <option key={one} value={one}>
            {typeWords(trans, one)}
          </option>
        ))}
      </select>
      <select
        className="kgs-input"
        aria-label={trans.__('Only as far trusted')}
        value={tier}
        onChange={event => void model.search({ tier: tiers.find(one => one === event.target.value) ?? '' })}
      >
        <option value="">{trans.__('Any trust')}</option>
        {tiers.map(one => (
          <option key={one} value={one}>
            {tierWords(trans, one).word}
          </option>
        ))}
      </select>
    </div>
  );
}

function List() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const more = useCallback(() => void model.more(), [model]);
  if (model.items.length === 0) {
    return model.loaded ? <None /> : <Waiting />;
  }
  return (
    <FewRows
      items={model.items}
      rowHeight={ROW_HEIGHT}
      label={trans.__('Memories')}
      keyOf={memory => memory.id}
      row={(memory, props) => <MemoryRow memory={memory} {...props} />}
      onNearEnd={more}
    />
  );
}

/** While the first answer is on its way; where none comes, the reason stands above. */
function Waiting() {
  const { kagura, trans } = usePanel();
  return kagura.memories.problem ? null : <p className="kgs-soft">{trans.__('Looking …')}</p>;
}

function None() {
  const { kagura, trans } = usePanel();
  const { words, type, tier } = kagura.memories.filter;
  return words || type || tier ? (
    <Empty title={trans.__('Nothing fits')}>
      {trans.__('Other words, another type, or what is in quarantine too may find it.')}
    </Empty>
  ) : (
    <Empty title={trans.__('Nothing is remembered yet')}>
      {trans.__(
        'Every run leaves a summary here, in quarantine until somebody vouches for it. %1 adds a note of your own.',
        '%kagura memory add'
      )}
    </Empty>
  );
}

/** What was forgotten last, and the way back. */
function Undo() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const { forgotten } = model;
  return forgotten ? (
    <p className="kgs-undo">
      <span className="kgs-cut">{trans.__('Forgotten: %1', oneLine(forgotten.summary, 60))}</span>
      <Button
        look="quiet"
        name={trans.__('Undo forgetting: %1', oneLine(forgotten.summary, 80))}
        disabled={model.busy(forgotten)}
        onClick={() => void model.change(forgotten, 'restore')}
      >
        {trans.__('Undo')}
      </Button>
    </p>
  ) : null;
}

/** Reads out what was done; it is seen in the list. */
function Announcer() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const [words, setWords] = useState('');
  useEffect(() => {
    const slot: Parameters<typeof model.done.connect>[0] = (_, done) => setWords(doneWords(trans, done));
    model.done.connect(slot);
    return () => void model.done.disconnect(slot);
  }, [model, trans]);
  return (
    <div className="kgs-unseen" aria-live="polite">
      {words}
    </div>
  );
}
