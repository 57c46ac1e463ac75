import type { TranslationBundle } from '@jupyterlab/translation';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { IRemarked } from '../model/approvals.js';
import type { Kagura } from '../model/kagura.js';
import { oneLine } from '../model/visible.js';
import { kindWords, remarkWords } from '../model/words.js';
import type { IOrigin, ISection } from '../tokens.js';
import { PanelContext, usePanel, type IPanelContext } from './context.js';
import { FailedCell, type IFailure } from './failedCell.js';
import { useSignal } from './hooks.js';
import { ModelPicker, type IModels } from './modelPicker.js';
import { Problem } from './parts.js';
import type { SectionList } from './sectionList.js';

/** How long a sentence about something that did not work stays; milliseconds. */
const TOLD_MS = 12_000;

export interface ISidebarProps {
  readonly kagura: Kagura;
  readonly trans: TranslationBundle;
  readonly sections: SectionList;
  readonly jump: (origin: IOrigin) => Promise<string>;
  readonly setUp: () => Promise<string>;
  readonly failure?: IFailure;
  readonly openSettings?: () => void;
  readonly models?: IModels;
}

/** The panel: its sections one below the other, scrolled as one, and below them those that stay. */
export function Sidebar({
  kagura,
  trans,
  sections,
  jump,
  setUp,
  failure,
  openSettings,
  models
}: ISidebarProps) {
  const [told, tell] = useTold();
  const context = useMemo<IPanelContext>(
    () => ({ kagura, trans, jump, setUp, tell }),
    [kagura, trans, jump, setUp, tell]
  );
  useSignal(sections.changed);
  useEffect(() => {
    const slot = (_: unknown, { approval, remark }: IRemarked) => tell(remarkWords(trans, approval, remark));
    kagura.approvals.remarked.connect(slot);
    return () => void kagura.approvals.remarked.disconnect(slot);
  }, [kagura, trans, tell]);
  const draw = (section: ISection) => <Section key={section.id} section={section} sections={sections} />;
  return (
    <PanelContext value={context}>
      <div className="kgs">
        {openSettings && <Head open={openSettings} models={models} />}
        <ServerProblem />
        <p className="kgs-told" role="status">
          {told}
        </p>
        <Announcer />
        <div className="kgs-scroll">
          {failure && <FailedCell failure={failure} />}
          {sections.items.filter(section => !section.stays).map(draw)}
        </div>
        {sections.items.filter(section => section.stays).map(draw)}
      </div>
    </PanelContext>
  );
}

function Head({ open, models }: { readonly open: () => void; readonly models?: IModels | undefined }) {
  const { trans } = usePanel();
  return (
    <div className="kgs-head">
      <span>{trans.__('Agent runs')}</span>
      {models && <ModelPicker models={models} />}
      <button
        type="button"
        className="kgs-gear"
        title={trans.__('Settings')}
        aria-label={trans.__('Settings')}
        onClick={open}
      />
    </div>
  );
}

/** A sentence that goes away by itself. */
function useTold(): [string, (sentence: string) => void] {
  const [told, setTold] = useState('');
  const timer = useRef(0);
  const tell = useCallback((sentence: string) => {
    setTold(sentence);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setTold(''), TOLD_MS);
  }, []);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return [told, tell];
}

function Section({ section, sections }: { readonly section: ISection; readonly sections: SectionList }) {
  useSignal(section.changed);
  const open = sections.isOpen(section.id);
  const badge = section.badge?.() ?? '';
  const headingId = `kgs-heading-${section.id}`;
  const bodyId = `kgs-body-${section.id}`;
  const classes = [
    'kgs-section',
    `kgs-section-${section.id}`,
    open ? 'kgs-open' : '',
    section.isWide ? 'kgs-wide' : '',
    section.stays ? 'kgs-stays' : ''
  ];
  return (
    <section className={classes.filter(Boolean).join(' ')} aria-labelledby={headingId}>
      <h2 className="kgs-heading">
        <button
          type="button"
          id={headingId}
          aria-expanded={open}
          aria-controls={open ? bodyId : undefined}
          onClick={() => sections.setOpen(section.id, !open)}
        >
          <span>{section.title}</span>
          {badge && <span className="kgs-badge">{badge}</span>}
        </button>
      </h2>
      {open && (
        <div id={bodyId} className="kgs-body">
          {section.render()}
        </div>
      )}
    </section>
  );
}

function ServerProblem() {
  const { kagura } = usePanel();
  useSignal(kagura.feed.changed);
  return <Problem problem={kagura.feed.problem} />;
}

/** Reads out that something new waits; it is seen in its section. */
function Announcer() {
  const { kagura, trans } = usePanel();
  const [words, setWords] = useState('');
  useEffect(() => {
    const slot: Parameters<typeof kagura.approvals.arrived.connect>[0] = (_, arrived) => {
      const first = arrived[0];
      if (first) {
        const about = `${kindWords(trans, first.kind).label}: ${oneLine(first.title, 120)}`;
        setWords(
          arrived.length === 1
            ? trans.__('A run waits for your answer. %1', about)
            : trans.__('%1 runs wait for your answer. The first: %2', arrived.length, about)
        );
      }
    };
    kagura.approvals.arrived.connect(slot);
    return () => void kagura.approvals.arrived.disconnect(slot);
  }, [kagura, trans]);
  return (
    <div className="kgs-unseen" aria-live="polite">
      {words}
    </div>
  );
}
