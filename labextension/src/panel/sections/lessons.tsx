import { useRef } from 'react';
import { oneLine, visible } from '../../model/visible.js';
import type { ILesson } from '../../api/schema.js';
import { MOST_LESSONS } from '../../model/memories.js';
import { usePanel } from '../context.js';
import { type IRovingItem, onActivate, useClaimedFocus, useRoving } from '../hooks.js';
import { Empty } from '../parts.js';
import { MemoryFacts, TierMark } from './memoryRow.js';

/** What went wrong before, and what prevents it. */
export function Lessons() {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const { lessons } = model;
  const roving = useRoving(lessons.length);
  if (lessons.length === 0) {
    return model.loaded ? (
      <Empty title={model.filter.words ? trans.__('No lesson fits') : trans.__('Nothing was learned yet')}>
        {trans.__(
          'A tool that failed, an approval that was denied and work that did not pass its verification become lessons, which are shown before similar tasks.'
        )}
      </Empty>
    ) : null;
  }
  return (
    <>
      <ul className="kgs-lessons" aria-label={trans.__('Lessons')} onKeyDown={roving.onKeyDown}>
        {lessons.map((lesson, index) => (
          <Lesson key={lesson.id} lesson={lesson} {...roving.item(index)} />
        ))}
      </ul>
      {lessons.length >= MOST_LESSONS && (
        <p className="kgs-soft">
          {trans.__(
            'No more than %1 are shown: search for others, or see %2 in a notebook.',
            MOST_LESSONS,
            '%kagura lessons --k 500'
          )}
        </p>
      )}
    </>
  );
}

interface ILessonProps extends IRovingItem {
  readonly lesson: ILesson;
}

function Lesson({ lesson, current, claimsFocus, onFocus }: ILessonProps) {
  const { kagura, trans } = usePanel();
  const model = kagura.memories;
  const item = useRef<HTMLLIElement>(null);
  const open = model.open?.id === lesson.id;
  useClaimedFocus(item, claimsFocus);
  const toggle = () => void model.setOpen(open ? null : lesson);
  return (
    <li
      ref={item}
      className={`kgs-lesson kgs-memory-${lesson.tier}${open ? ' kgs-memory-open' : ''}`}
      tabIndex={current ? 0 : -1}
      data-item=""
      data-memory={visible(lesson.id)}
      onFocus={onFocus}
      onKeyDown={onActivate(toggle)}
      onClick={toggle}
    >
      <div className="kgs-lesson-trigger">{oneLine(lesson.trigger || lesson.summary, 240)}</div>
      {lesson.said && (
        <div>
          <q>{oneLine(lesson.said, 240)}</q>
        </div>
      )}
      <div>
        <span className="kgs-soft">{trans.__('What prevents it:')}</span>{' '}
        {lesson.fix ? (
          oneLine(lesson.fix, 240)
        ) : (
          <span className="kgs-soft">{trans.__('not known yet')}</span>
        )}
      </div>
      <div className="kgs-memory-line">
        <TierMark tier={lesson.tier} />
        <MemoryFacts memory={lesson} />
        {lesson.seen > 1 && <span className="kgs-soft">{trans.__('%1 runs', lesson.seen)}</span>}
      </div>
    </li>
  );
}
