import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useRef } from 'react';
import type { Kagura } from '../../model/kagura.js';
import type { ISection } from '../../tokens.js';
import { usePanel } from '../context.js';
import { useRoving, useSignal } from '../hooks.js';
import { Empty, Problem } from '../parts.js';
import { ApprovalCard, DecidedApproval } from './approvalCard.js';

export const APPROVALS_ID = 'approvals';

/** What waits for a person's word. */
export function approvalsSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: APPROVALS_ID,
    title: trans.__('Approvals'),
    rank: 100,
    badge: () => (kagura.approvals.pending.length > 0 ? String(kagura.approvals.pending.length) : ''),
    changed: kagura.approvals.changed,
    render: () => <Approvals />
  };
}

function Approvals() {
  const { kagura, trans } = usePanel();
  const model = kagura.approvals;
  useSignal(model.changed);
  const { pending, decided } = model;
  const roving = useRoving(pending.length);
  const list = useRef<HTMLDivElement>(null);
  const hadFocus = useRef(false);

  // An answered card leaves with the focus in it; the next question takes it over, or the list does.
  useEffect(() => {
    if (hadFocus.current && document.activeElement === document.body) {
      (list.current?.querySelector<HTMLElement>('[data-item][tabindex="0"]') ?? list.current)?.focus();
    }
  });

  return (
    <div
      className="kgs-approvals"
      ref={list}
      tabIndex={-1}
      onFocus={() => (hadFocus.current = true)}
      onBlur={event => {
        // Without a next element the focused one was removed, or the window was left.
        hadFocus.current = event.relatedTarget === null;
      }}
      onKeyDown={roving.onKeyDown}
    >
      <Problem problem={model.problem} />
      {pending.length === 0 && model.loaded && (
        <Empty title={trans.__('Nothing waits for you')}>
          {trans.__(
            'When a run asks for more power, such as a command on this computer, a host or a credential, it asks here and in its cell. No answer is a denial.'
          )}
        </Empty>
      )}
      {pending.map((approval, index) => (
        <ApprovalCard
          key={approval.id}
          approval={approval}
          answering={model.answering(approval.id)}
          remark={model.remark(approval.id)}
          {...roving.item(index)}
        />
      ))}
      {decided.length > 0 && (
        <details className="kgs-details kgs-decided-all">
          <summary>{trans.__('Decided lately')}</summary>
          <ul>
            {decided.map(approval => (
              <DecidedApproval key={approval.id} approval={approval} remark={model.remark(approval.id)} />
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}
