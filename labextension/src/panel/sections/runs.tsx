import type { TranslationBundle } from '@jupyterlab/translation';
import { useCallback, useEffect, useRef, useState, type KeyboardEvent } from 'react';
import type { Kagura } from '../../model/kagura.js';
import { oneLine, visible } from '../../model/visible.js';
import { ago, clockFace, lasted, money, roundMoney, runState } from '../../model/words.js';
import type { IRun } from '../../api/schema.js';
import type { ISection } from '../../tokens.js';
import { usePanel } from '../context.js';
import { type IRovingItem, onActivate, useClaimedFocus, useNow, useSignal } from '../hooks.js';
import { Button, Empty, notebookName, Problem, useJump } from '../parts.js';
import { SearchField } from '../searchField.js';
import { FewRows } from '../virtualList.js';

export const RUNS_ID = 'runs';

const ROW_HEIGHT = 52;

/** How long a row says that its run will hear what was said; milliseconds. */
const TOLD_MS = 8000;

/** Characters that a sentence may have. */
const LONGEST_SENTENCE = 4000;

/** All runs of the journal, those that go on first. */
export function runsSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: RUNS_ID,
    title: trans.__('Runs'),
    rank: 200,
    isWide: true,
    badge: () => {
      const live = kagura.feed.status?.live ?? 0;
      return live > 0 ? trans.__('%1 live', live) : '';
    },
    changed: kagura.feed.changed,
    render: () => <Runs />
  };
}

function Runs() {
  const { kagura, trans } = usePanel();
  const model = kagura.runs;
  useSignal(model.changed);
  const more = useCallback(() => void model.more(), [model]);
  const search = useCallback((words: string) => void model.search(words), [model]);
  return (
    <div className="kgs-runs">
      <SearchField label={trans.__('Search the runs')} words={model.query} onSearch={search} />
      <Problem problem={model.problem} />
      {model.loaded && model.items.length === 0 ? (
        <None query={model.query} />
      ) : (
        <FewRows
          items={model.items}
          rowHeight={ROW_HEIGHT}
          label={trans.__('Runs')}
          keyOf={run => run.run_id}
          row={(run, props) => <RunRow run={run} stopping={model.stopping(run.run_id)} {...props} />}
          onNearEnd={more}
        />
      )}
    </div>
  );
}

function None({ query }: { readonly query: string }) {
  const { trans, setUp, tell } = usePanel();
  return query ? (
    <Empty title={trans.__('No run has these words')}>
      {trans.__('The search looks into the task, the brain, the model and the name of the notebook.')}
    </Empty>
  ) : (
    <Empty title={trans.__('No run yet')}>
      {trans.__('Write %1 on the first line of a cell, a task below it, and run the cell.', '%%kagura')}
      <Button
        onClick={async () => {
          tell(await setUp());
        }}
      >
        {trans.__('Set up a model')}
      </Button>
    </Empty>
  );
}

interface IRunRowProps extends IRovingItem {
  readonly run: IRun;
  readonly stopping: boolean;
}

function RunRow({ run, stopping, current, claimsFocus, onFocus }: IRunRowProps) {
  const { kagura, trans } = usePanel();
  const row = useRef<HTMLDivElement>(null);
  const jump = useJump(run);
  const { word, tone } = runState(trans, run.status);
  const task = oneLine(run.task) || (run.flavour === 'sandbox' ? trans.__('Sandbox cell') : trans.__('Run'));
  const tab = current ? 0 : -1;
  const [saying, setSaying] = useState(false);
  const [told, setTold] = useState(false);
  const say = async (text: string) => {
    setSaying(false);
    row.current?.focus();
    setTold(text.trim() !== '' && (await kagura.runs.say(run.run_id, text)));
  };
  useEffect(() => {
    const timer = told ? window.setTimeout(() => setTold(false), TOLD_MS) : undefined;
    return () => window.clearTimeout(timer);
  }, [told]);
  useClaimedFocus(row, claimsFocus, { preventScroll: true });
  const enter = onActivate(jump);
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Delete' && run.live && event.target === event.currentTarget) {
      event.preventDefault();
      void kagura.runs.stop(run.run_id);
      return;
    }
    enter(event);
  };
  return (
    <div
      ref={row}
      className="kgs-run"
      role="group"
      aria-label={`${stopping ? trans.__('Stopping') : word}: ${task}`}
      title={visible(run.task)}
      tabIndex={tab}
      data-item=""
      onFocus={onFocus}
      onKeyDown={keys}
      onDoubleClick={jump}
    >
      <span className={`kgs-dot kgs-tone-${tone}`} aria-hidden="true" />
      {saying && run.live && <SayField about={task} onSay={say} />}
      <div className="kgs-run-words" hidden={saying && run.live}>
        <div className="kgs-run-task" dir="auto">
          {task}
        </div>
        <div className="kgs-run-facts">
          {told && run.live ? (
            <span role="status">{trans.__('Told')}</span>
          ) : (
            <span className={`kgs-tone-${tone}`}>{stopping ? trans.__('Stopping …') : word}</span>
          )}
          <When run={run} />
          {run.verified !== null && (
            <span className={run.verified ? 'kgs-tone-good' : 'kgs-tone-bad'}>
              {run.verified ? trans.__('Verified') : trans.__('Not verified')}
            </span>
          )}
          {run.untrusted && (
            <span title={trans.__('It was shown memories that are in quarantine')}>
              {trans.__('Untrusted')}
            </span>
          )}
          {run.cost_usd !== null && <span title={money(run.cost_usd)}>{roundMoney(run.cost_usd)}</span>}
          {run.user.includes(':') && (
            <span title={trans.__('Asked for in a chat, by %1', visible(run.user))}>
              {trans.__('for %1', visible(run.user))}
            </span>
          )}
          {run.notebook && <span className="kgs-cut">{notebookName(run.notebook)}</span>}
        </div>
      </div>
      <div className="kgs-run-acts">
        {(run.notebook || run.kernel_id) && (
          <button
            type="button"
            className="kgs-icon kgs-icon-jump"
            aria-label={trans.__('Go to the cell of: %1', task)}
            title={trans.__('Go to the cell')}
            tabIndex={tab}
            onClick={jump}
          />
        )}
        {run.live && run.flavour === 'agent' && (
          <button
            type="button"
            className="kgs-icon kgs-icon-say"
            aria-label={trans.__('Say something to: %1', task)}
            title={trans.__('Say something to this run')}
            disabled={stopping}
            tabIndex={tab}
            onClick={() => setSaying(!saying)}
          />
        )}
        {run.live && (
          <button
            type="button"
            className="kgs-icon kgs-icon-stop"
            aria-label={trans.__('Stop: %1', task)}
            title={trans.__('Stop the run')}
            disabled={stopping}
            tabIndex={tab}
            onClick={() => void kagura.runs.stop(run.run_id)}
          />
        )}
      </div>
    </div>
  );
}

interface ISayFieldProps {
  readonly about: string;
  /** Told what was typed once it is sent; an empty text when it is called off. */
  readonly onSay: (text: string) => Promise<void>;
}

/** A line in the place of a run's own words: Enter sends it, Escape calls it off. */
function SayField({ about, onSay }: ISayFieldProps) {
  const { trans } = usePanel();
  const keys = (event: KeyboardEvent<HTMLInputElement>) => {
    // The list's keys move through its rows.
    event.stopPropagation();
    if (event.key === 'Escape') {
      void onSay('');
    } else if (event.key === 'Enter' && !event.nativeEvent.isComposing && event.currentTarget.value.trim()) {
      event.preventDefault();
      void onSay(event.currentTarget.value);
    }
  };
  return (
    <input
      className="kgs-input"
      type="text"
      autoFocus
      maxLength={LONGEST_SENTENCE}
      aria-label={trans.__('Say something to: %1', about)}
      placeholder={trans.__('Say something to this run')}
      onKeyDown={keys}
    />
  );
}

function When({ run }: { readonly run: IRun }) {
  const { trans } = usePanel();
  const now = useNow(run.live);
  const since = Math.max(0, (now - Date.parse(run.started_at)) / 1000);
  if (Number.isNaN(since)) {
    return null;
  }
  if (run.live) {
    return <span className="kgs-figure">{clockFace(since)}</span>;
  }
  return (
    <>
      <span title={new Date(run.started_at).toLocaleString()}>{ago(trans, since)}</span>
      {run.duration !== null && <span className="kgs-lasted">{lasted(run.duration)}</span>}
    </>
  );
}
