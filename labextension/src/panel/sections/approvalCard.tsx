import { useId, useRef, type KeyboardEvent } from 'react';
import type { Remark } from '../../model/approvals.js';
import { visible } from '../../model/visible.js';
import { clockFace, decisionWords, kindWords, remarkWords } from '../../model/words.js';
import type { IApproval, IShown } from '../../api/schema.js';
import { Answers } from './answers.js';
import { argumentsText } from '../asked.js';
import { usePanel } from '../context.js';
import { type IRovingItem, onActivate, useClaimedFocus, useNow } from '../hooks.js';
import { Exactly, Origin } from '../parts.js';
import { useRead } from '../reading.js';

export interface IApprovalCardProps extends IRovingItem {
  readonly approval: IApproval;
  readonly answering: boolean;
  readonly remark: Remark | null;
  /** Whether the Tab key stops at this card. */
}

/** One approval that waits: what, why, from where, until when, and the answers. */
export function ApprovalCard({
  approval,
  answering,
  remark,
  current,
  claimsFocus,
  onFocus
}: IApprovalCardProps) {
  const { trans } = usePanel();
  const card = useRef<HTMLElement>(null);
  const heading = useId();
  const { label } = kindWords(trans, approval.kind);
  const shown = approval.shown ?? alone(approval);
  const read = useRead(card, shown.blocks.length);
  useClaimedFocus(card, claimsFocus);
  // The first stop of the keyboard is the question itself, never one of its buttons.
  const enter = onActivate(() =>
    card.current
      ?.querySelector<HTMLElement>('.kgs-answers button:enabled, .kgs-answers input:enabled')
      ?.focus()
  );
  const onKeyDown = (event: KeyboardEvent) => {
    // A key that is held comes from the question to its first answer, and must not give it.
    if (event.repeat && (event.key === 'Enter' || event.target instanceof HTMLButtonElement)) {
      event.preventDefault();
      return;
    }
    enter(event);
  };
  return (
    <article
      ref={card}
      className="kgs-approval"
      aria-labelledby={heading}
      aria-busy={answering}
      tabIndex={current ? 0 : -1}
      data-item=""
      data-approval={approval.id}
      onFocus={onFocus}
      onKeyDown={onKeyDown}
    >
      <div id={heading} className="kgs-approval-head">
        <span className="kgs-kind">{label}</span>{' '}
        <strong className="kgs-title">{visible(shown.title)}</strong>
        {shown.target && <code className="kgs-target">{visible(shown.target)}</code>}
      </div>
      <Lineage approval={approval} />
      <What kind={approval.kind} shown={shown} />
      <Why approval={approval} />
      <Arguments approval={approval} />
      <Countdown approval={approval} />
      <Answers approval={approval} disabled={answering} unread={!read} />
      <RemarkLine approval={approval} remark={remark} />
    </article>
  );
}

/** An approval that was decided: how, and by whom. */
export function DecidedApproval({
  approval,
  remark
}: {
  readonly approval: IApproval;
  readonly remark: Remark | null;
}) {
  const { trans } = usePanel();
  const { label } = kindWords(trans, approval.kind);
  const { words, tone } = decisionWords(trans, approval.kind, {
    verdict: approval.verdict ?? '',
    by: approval.by,
    via: approval.via,
    answer: approval.answer
  });
  return (
    <li className="kgs-decided">
      <div className="kgs-decided-what">
        <span className="kgs-soft">{label}</span> {visible(title(approval))}
      </div>
      <div className={`kgs-verdict kgs-tone-${tone}`}>{words}</div>
      <RemarkLine approval={approval} remark={remark} />
    </li>
  );
}

/** What there is to read where the server has not said it. */
function alone(approval: IApproval): IShown {
  const blocks = [{ label: '', text: approval.detail, size: '' }];
  return { title: title(approval), target: '', blocks, place: '', means: '' };
}

/** A question's text is its detail; the title of the others says it in one line. */
function title(approval: IApproval): string {
  return approval.kind === 'question' ? approval.detail || approval.title : approval.title;
}

/** Which run it is that has handed this work on; nothing where a person started it. */
function Lineage({ approval }: { readonly approval: IApproval }) {
  const { trans } = usePanel();
  return approval.lineage.length > 0 ? (
    <div className="kgs-soft">
      {trans.__(
        'A part that was handed on: %1',
        [...approval.lineage, approval.run_id].map(visible).join(' → ')
      )}
    </div>
  ) : null;
}

function What({ kind, shown }: { readonly kind: string; readonly shown: IShown }) {
  const { trans } = usePanel();
  const { meaning } = kindWords(trans, kind);
  const { blocks, place, means } = shown;
  return (
    <>
      {blocks.map(({ label, text, size }, index) => (
        <div key={index}>
          {label && <div className="kgs-soft">{visible(label)}</div>}
          <Exactly text={text} end />
          {size && <div className="kgs-soft">{size}</div>}
        </div>
      ))}
      <div className="kgs-soft">
        {means ? visible(means) : meaning}
        {place && (
          <>
            {' '}
            {trans.__('Directory:')} <code>{visible(place)}</code>
          </>
        )}
      </div>
    </>
  );
}

function Arguments({ approval }: { readonly approval: IApproval }) {
  const { trans } = usePanel();
  const whole = argumentsText(approval);
  return whole ? (
    <details className="kgs-details">
      <summary>{trans.__('All arguments')}</summary>
      <Exactly text={whole} />
    </details>
  ) : null;
}

/** Kinds that are asked for by us, so that no agent owes a reason. */
const OURS = ['network', 'launch', 'credential', 'plugin', 'tool', 'plan', 'trust'];

function Why({ approval }: { readonly approval: IApproval }) {
  const { trans } = usePanel();
  const reason = approval.reason.trim();
  if (approval.kind === 'question') {
    return null;
  }
  if (!reason) {
    return OURS.includes(approval.kind) ? null : (
      <div className="kgs-soft">{trans.__('The agent gave no reason.')}</div>
    );
  }
  // For a host and for a toolset's call the reason is ours; the others are quoted, whoever's words they are.
  if (approval.kind === 'network' || (approval.kind === 'tool' && 'toolset' in approval.arguments)) {
    return <div className="kgs-soft">{visible(reason)}</div>;
  }
  const whose = ['launch', 'credential', 'plan', 'trust'].includes(approval.kind)
    ? trans.__('The reason given:')
    : trans.__('The agent’s own words:');
  return (
    <div>
      <span className="kgs-soft">{whose}</span> <q>{visible(reason)}</q>
    </div>
  );
}

function Countdown({ approval }: { readonly approval: IApproval }) {
  const { trans } = usePanel();
  const now = useNow();
  const end = Date.parse(approval.deadline_at);
  const total = end - Date.parse(approval.requested_at);
  const left = Math.max(0, end - now);
  const share = total > 0 ? Math.min(1, left / total) : 0;
  return (
    <div className="kgs-count">
      <span className="kgs-bar" aria-hidden="true">
        <i style={{ transform: `scaleX(${share.toFixed(3)})` }} />
      </span>
      <span>
        <span className="kgs-face">{Number.isNaN(end) ? '' : clockFace(left / 1000)}</span>{' '}
        {approval.kind === 'question'
          ? trans.__('left, then it goes on without an answer')
          : trans.__('left, no answer is a denial')}
      </span>
      <span className="kgs-spring" />
      <Origin origin={approval} />
    </div>
  );
}

function RemarkLine({ approval, remark }: { readonly approval: IApproval; readonly remark: Remark | null }) {
  const { trans } = usePanel();
  return remark ? <p className="kgs-problem">{remarkWords(trans, approval, remark)}</p> : null;
}
