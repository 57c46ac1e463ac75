import { useEffect, useRef, type KeyboardEvent } from 'react';
import type { IErasing } from '../../model/memories.js';
import { grownWords } from '../../model/memoryWords.js';
import { oneLine, visible } from '../../model/visible.js';
import type { IMemoryGrown } from '../../api/schema.js';
import { usePanel } from '../context.js';
import { Button, Problem } from '../parts.js';
import { TierMark } from './memoryRow.js';

/** So many of those that would go are named; of the others there is the number. */
const MOST_NAMED = 20;

/** The question before a memory is erased with all that came from it: it says what goes. */
export function MemoryErasing({ erasing: { memory, goes } }: { readonly erasing: IErasing }) {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const group = useRef<HTMLDivElement>(null);
  // Whoever asked stands before the question, and not on a button that erases.
  useEffect(() => group.current?.focus(), []);
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      model.keep();
    }
  };
  const known = goes && 'value' in goes ? goes.value : null;
  const name = oneLine(memory.summary, 80);
  return (
    <div
      ref={group}
      className="kgs-erasing"
      role="alertdialog"
      aria-label={trans.__('Erase it for good?')}
      aria-describedby="kgs-erasing-what"
      tabIndex={-1}
      onKeyDown={keys}
    >
      <strong>{trans.__('Erase it for good?')}</strong>
      <p>
        <q>{oneLine(memory.summary, 200)}</q>
      </p>
      <div id="kgs-erasing-what">
        {goes === null && <p className="kgs-soft">{trans.__('Looking what would go with it …')}</p>}
        {goes && 'problem' in goes && <Problem problem={goes.problem} />}
        {known && <Goes goes={known} />}
      </div>
      <div className="kgs-answers">
        <Button disabled={known === null} name={`${eraseWord()}: ${name}`} onClick={() => void model.erase()}>
          {eraseWord()}
        </Button>
        <Button look="quiet" name={trans.__('Keep: %1', name)} onClick={() => model.keep()}>
          {trans.__('Keep')}
        </Button>
      </div>
    </div>
  );

  function eraseWord(): string {
    return known && known.memories.length > 1 ? trans.__('Erase all of it') : trans.__('Erase it');
  }
}

function Goes({ goes }: { readonly goes: IMemoryGrown }) {
  const { trans } = usePanel();
  const others = goes.memories.slice(1);
  const left = others.length - MOST_NAMED;
  const parts = grownWords(trans, goes);
  return (
    <>
      <p>
        {trans.__('This cannot be undone. The journal keeps that it was done, and not what it said.')}{' '}
        {parts.length > 0 ? trans.__('With the memory go:') : trans.__('Nothing else goes with it.')}
      </p>
      {parts.length > 0 && (
        <ul className="kgs-goes">
          {parts.map(part => (
            <li key={part}>{part}</li>
          ))}
        </ul>
      )}
      {others.length > 0 && (
        <ul className="kgs-neighbours" aria-label={trans.__('Memories that came from it')}>
          {others.slice(0, MOST_NAMED).map(memory => (
            <li key={memory.id}>
              <TierMark tier={memory.tier} /> {oneLine(memory.summary, 100)}
            </li>
          ))}
          {left > 0 && <li className="kgs-soft">{trans._n('and %1 more', 'and %1 more', left, left)}</li>}
        </ul>
      )}
      {goes.going.length > 0 && (
        <p className="kgs-problem">
          {trans.__(
            'Runs that go on know it and may write it down again: %1. Stop them first.',
            goes.going.map(visible).join(', ')
          )}
        </p>
      )}
    </>
  );
}
