import { useRef, type KeyboardEvent } from 'react';
import { sourceWords, tierWords, typeWords, whyWords } from '../../model/memoryWords.js';
import { oneLine, visible } from '../../model/visible.js';
import { ago } from '../../model/words.js';
import type { IMemory } from '../../api/schema.js';
import type { MemoryDeed, Tier } from '../../tokens.js';
import { usePanel } from '../context.js';
import { type IRovingItem, onActivate, useClaimedFocus, useNow } from '../hooks.js';

interface IMemoryRowProps extends IRovingItem {
  readonly memory: IMemory;
}

/** One memory of the list: its first line, how far it is trusted, and what can be done to it at once. */
export function MemoryRow({ memory, current, claimsFocus, onFocus }: IMemoryRowProps) {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const row = useRef<HTMLDivElement>(null);
  const tab = current ? 0 : -1;
  const summary = oneLine(memory.summary);
  const open = model.open?.id === memory.id;
  const why = whyWords(trans, memory);
  useClaimedFocus(row, claimsFocus, { preventScroll: true });
  const toggle = () => void model.setOpen(open ? null : memory);
  // What somebody vouches for they have in view: the line here is only its beginning.
  const read = () => void model.setOpen(memory, true);
  const enter = onActivate(toggle);
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Delete' && event.target === event.currentTarget) {
      event.preventDefault();
      void model.change(memory, 'forget');
      return;
    }
    enter(event);
  };
  return (
    <div
      ref={row}
      className={`kgs-memory kgs-memory-${memory.tier}${open ? ' kgs-memory-open' : ''}`}
      role="group"
      aria-label={`${tierWords(trans, memory.tier).word}: ${summary}`}
      title={visible(memory.summary)}
      tabIndex={tab}
      data-item=""
      data-memory={visible(memory.id)}
      onFocus={onFocus}
      onKeyDown={keys}
      onClick={event => {
        if (!(event.target as HTMLElement).closest('button')) {
          toggle();
        }
      }}
    >
      <div className="kgs-memory-summary" dir="auto">
        {summary}
      </div>
      <div className="kgs-memory-line">
        <TierMark tier={memory.tier} />
        <MemoryFacts memory={memory} />
      </div>
      <div className="kgs-memory-line">
        <span className="kgs-run-facts">{why || memory.tags.map(visible).join(', ')}</span>
        <span className="kgs-spring" />
        {memory.tier === 'quarantine' && (
          <button
            type="button"
            className="kgs-icon kgs-icon-promote"
            aria-label={`${trans.__('Promote …')}: ${oneLine(memory.summary, 80)}`}
            title={trans.__('Promote …: read it, and say that it may be trusted')}
            disabled={model.busy(memory)}
            tabIndex={tab}
            onClick={read}
          />
        )}
        {memory.pinned ? (
          <Act memory={memory} deed="unpin" look="pinned" tabIndex={tab} word={trans.__('Unpin')}>
            {trans.__('Unpin: no run starts with it any more')}
          </Act>
        ) : (
          <Act memory={memory} deed="pin" look="pin" tabIndex={tab} word={trans.__('Pin')}>
            {trans.__('Pin: every run that it concerns starts with it')}
          </Act>
        )}
        <Act memory={memory} deed="forget" look="forget" tabIndex={tab} word={trans.__('Forget')}>
          {trans.__('Forget: it is not found any more; this can be undone')}
        </Act>
      </div>
    </div>
  );
}

/** How far a memory is trusted, by word and form and not by colour alone. */
export function TierMark({ tier }: { readonly tier: Tier }) {
  const { trans } = usePanel();
  const { word, meaning, tone } = tierWords(trans, tier);
  return (
    <span className={`kgs-tier kgs-tier-${tier} kgs-tone-${tone}`} title={meaning}>
      {word}
    </span>
  );
}

/** Its type, age and source. */
export function MemoryFacts({ memory }: { readonly memory: IMemory }) {
  const { trans } = usePanel();
  const now = useNow(false);
  const since = Math.max(0, (now - Date.parse(memory.at)) / 1000);
  return (
    <span className="kgs-run-facts">
      <span>{typeWords(trans, memory.type)}</span>
      {!Number.isNaN(since) && <span title={new Date(memory.at).toLocaleString()}>{ago(trans, since)}</span>}
      <span>{sourceWords(trans, memory)}</span>
      {memory.pinned && <span>{trans.__('Pinned')}</span>}
    </span>
  );
}

interface IActProps {
  readonly memory: IMemory;
  readonly deed: MemoryDeed;
  readonly look: string;
  readonly word: string;
  readonly tabIndex: number;
  /** What it means. */
  readonly children: string;
}

function Act({ memory, deed, look, word, tabIndex, children }: IActProps) {
  const { kagura } = usePanel();
  const model = kagura.memories;
  return (
    <button
      type="button"
      className={`kgs-icon kgs-icon-${look}`}
      aria-label={`${word}: ${oneLine(memory.summary, 80)}`}
      title={children}
      disabled={model.busy(memory)}
      tabIndex={tabIndex}
      onClick={() => void model.change(memory, deed)}
    />
  );
}
