import {
  useEffect,
  useLayoutEffect,
  useRef,
  type KeyboardEvent,
  type ReactNode,
  type RefObject
} from 'react';
import { edgeWords, tierWords } from '../../model/memoryWords.js';
import { oneLine, visible } from '../../model/visible.js';
import type { IMemory, IMemoryFacts, IMemoryInFull } from '../../api/schema.js';
import type { MemoryDeed } from '../../tokens.js';
import { usePanel } from '../context.js';
import { Button, Exactly, Problem } from '../parts.js';
import { MemoryErasing } from './memoryErasing.js';
import { MemoryFacts, TierMark } from './memoryRow.js';

/** The memory that is open: all that it says, where it comes from, what it is joined to, and what can be done to it. */
export function MemoryDetails({ memory }: { readonly memory: IMemory }) {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const { full, erasing } = model;
  const group = useRef<HTMLDivElement>(null);
  useFocusBack(group, erasing !== null);
  const inView = full !== null && 'value' in full;
  const { promoting } = model;
  useEffect(() => {
    if (inView && promoting > 0) {
      group.current?.querySelector<HTMLElement>('.kgs-primary')?.focus();
    }
  }, [inView, promoting]);
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      void model.setOpen(null);
    }
  };
  return (
    <div
      ref={group}
      className={`kgs-memory-full kgs-memory-${memory.tier}`}
      role="group"
      aria-label={trans.__('Memory: %1', oneLine(memory.summary, 80))}
      onKeyDown={keys}
    >
      <div className="kgs-memory-line">
        <TierMark tier={memory.tier} />
        <MemoryFacts memory={memory} />
        <span className="kgs-spring" />
        <button
          type="button"
          className="kgs-icon kgs-icon-forget"
          aria-label={trans.__('Close')}
          title={trans.__('Close')}
          onClick={() => void model.setOpen(null)}
        />
      </div>
      {erasing ? (
        <MemoryErasing erasing={erasing} />
      ) : (
        <>
          {full === null && <p className="kgs-soft">{trans.__('Fetching it …')}</p>}
          {full && 'problem' in full && <Problem problem={full.problem} />}
          {full && 'value' in full && <Whole memory={full.value} />}
          <Acts memory={memory} inView={inView} />
        </>
      )}
    </div>
  );
}

/** Whoever has answered goes on where they asked, and whoever was in here goes back to the list when it closes. */
function useFocusBack(group: RefObject<HTMLDivElement | null>, asked: boolean): void {
  const wasAsked = useRef(asked);
  useEffect(() => {
    if (wasAsked.current && !asked) {
      group.current?.querySelector<HTMLElement>('.kgs-answers button:last-child')?.focus();
    }
    wasAsked.current = asked;
  }, [group, asked]);
  useLayoutEffect(() => {
    const node = group.current;
    return () => {
      const section = node?.parentElement;
      if (section && node.contains(document.activeElement)) {
        // Not before React has finished: until then it hears of no focus.
        queueMicrotask(() => section.querySelector<HTMLElement>('[data-item][tabindex="0"]')?.focus());
      }
    };
  }, [group]);
}

function Whole({ memory }: { readonly memory: IMemoryInFull }) {
  const { trans } = usePanel();
  const { meaning } = tierWords(trans, memory.tier);
  const feedback = [
    memory.helped > 0 && trans._n('helped once', 'helped %1 times', memory.helped, memory.helped),
    memory.misled > 0 && trans._n('misled once', 'misled %1 times', memory.misled, memory.misled)
  ].filter(Boolean);
  return (
    <>
      <div className="kgs-memory-text" tabIndex={0} role="group" aria-label={trans.__('What it says')}>
        <Exactly text={memory.text} />
      </div>
      <p className="kgs-soft">
        {memory.promoted_by ? trans.__('%1 promoted it.', visible(memory.promoted_by)) : meaning}
        {memory.pinned &&
          memory.tier === 'quarantine' &&
          ` ${trans.__('It is pinned, and runs start with it only once it is trusted.')}`}
      </p>
      <dl className="kgs-pairs">
        <Pair name={trans.__('Id')}>{memory.id}</Pair>
        <Pair name={trans.__('Run')}>{memory.run_id}</Pair>
        <Pair name={trans.__('Read from')}>{memory.uri}</Pair>
        <Pair name={trans.__('Concerns')}>{memory.scope}</Pair>
        <Pair name={trans.__('Tags')}>{memory.tags.join(', ')}</Pair>
        <Pair name={trans.__('Expires')}>
          {memory.expires_at && new Date(memory.expires_at).toLocaleString()}
        </Pair>
        <Pair name={trans.__('In runs')}>{feedback.join(', ')}</Pair>
      </dl>
      {Object.keys(memory.data).length > 0 && (
        <details className="kgs-details" open={memory.tier === 'quarantine'}>
          <summary>{trans.__('Further facts')}</summary>
          <Exactly text={JSON.stringify(memory.data, null, 2)} />
        </details>
      )}
      {memory.neighbours.length > 0 && (
        <ul className="kgs-neighbours" aria-label={trans.__('Joined to')}>
          {memory.neighbours.map(neighbour => (
            <li key={`${neighbour.edge} ${String(neighbour.away)} ${neighbour.id}`}>
              <Neighbour memory={neighbour} how={edgeWords(trans, neighbour)} />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Neighbour({ memory, how }: { readonly memory: IMemoryFacts; readonly how: string }) {
  const { kagura } = usePanel();
  return (
    <>
      <span className="kgs-soft">{how}</span> <TierMark tier={memory.tier} />{' '}
      <button
        type="button"
        className="kgs-link"
        onClick={() => void kagura.memories.setOpen({ ...memory, score: null, why: [] })}
      >
        {oneLine(memory.summary, 100)}
      </button>
    </>
  );
}

/** Nothing where there is nothing to tell. */
function Pair({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return children ? (
    <div>
      <dt>{name}</dt>
      <dd>{typeof children === 'string' ? visible(children) : children}</dd>
    </div>
  ) : null;
}

function Acts({ memory, inView }: { readonly memory: IMemory; readonly inView: boolean }) {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const name = oneLine(memory.summary, 80);
  const act = (deed: MemoryDeed, word: string, look: 'primary' | 'quiet' | 'plain' = 'plain') => (
    <Button
      look={look}
      name={`${word}: ${name}`}
      disabled={model.busy(memory) || (deed === 'promote' && !inView)}
      onClick={() => void model.change(memory, deed)}
    >
      {word}
    </Button>
  );
  return (
    <div className="kgs-answers">
      {memory.tier === 'quarantine'
        ? act('promote', trans.__('Promote'), 'primary')
        : act('demote', trans.__('Demote'))}
      {memory.pinned ? act('unpin', trans.__('Unpin')) : act('pin', trans.__('Pin'))}
      {act('forget', trans.__('Forget'))}
      <Button
        look="quiet"
        name={trans.__('Erase …: %1', name)}
        disabled={model.busy(memory)}
        onClick={() => void model.askToErase(memory)}
      >
        {trans.__('Erase …')}
      </Button>
    </div>
  );
}
