import { useState, type FormEvent } from 'react';
import { oneLine, visible } from '../../model/visible.js';
import { exactMoney } from '../../model/words.js';
import type { IApproval } from '../../api/schema.js';
import type { Verdict } from '../../tokens.js';
import { NEVER, THIS_CALL, THIS_RUN, THIS_SESSION } from '../asked.js';
import { usePanel } from '../context.js';
import { Button } from '../parts.js';

interface IAnswersProps {
  readonly approval: IApproval;
  readonly disabled: boolean;
  /** Whether something of it has not been on screen to its end, so that it cannot be allowed yet. */
  readonly unread: boolean;
}

/** What an approval can be answered with: the same choices as on its card in the notebook. */
export function Answers({ approval, disabled, unread }: IAnswersProps) {
  const { kagura, trans } = usePanel();
  const decide = (verdict: Verdict, answer = '') =>
    void kagura.approvals.decide(approval.id, verdict, answer);
  const about = oneLine(approval.title, 80);
  const stop = (
    <Button
      look="quiet"
      disabled={disabled}
      name={trans.__('Stop the run: %1', about)}
      onClick={() => decide('abort')}
    >
      {trans.__('Stop the run')}
    </Button>
  );
  const choices = { approval, disabled, unread, decide, about };
  return (
    <div className="kgs-answers">
      {approval.kind === 'question' ? (
        <Question {...choices} />
      ) : approval.kind === 'plan' ? (
        <Plan {...choices} />
      ) : approval.options.length > 0 ? (
        <Options {...choices} />
      ) : (
        <Plain {...choices} />
      )}
      {stop}
      {unread && (
        <div className="kgs-soft">{trans.__('It can be allowed once its end has been on screen.')}</div>
      )}
    </div>
  );
}

interface IChoicesProps extends IAnswersProps {
  readonly decide: (verdict: Verdict, answer?: string) => void;
  /** What is asked for, on one line. */
  readonly about: string;
}

function Plain({ approval, disabled, unread, decide, about }: IChoicesProps) {
  const { trans } = usePanel();
  const once = !['launch', 'credential'].includes(approval.kind);
  const trust = approval.kind === 'trust';
  const allow = trust ? trans.__('Trust it') : once ? trans.__('Allow once') : trans.__('Allow');
  const deny = trust ? trans.__('Not now') : trans.__('Deny');
  return (
    <>
      <Button
        look="primary"
        disabled={disabled}
        locked={unread}
        name={`${allow}: ${about}`}
        onClick={() => decide('allow')}
      >
        {allow}
      </Button>
      <Button disabled={disabled} name={`${deny}: ${about}`} onClick={() => decide('deny')}>
        {deny}
      </Button>
    </>
  );
}

/** A plan begins with the budget that stands in its field; nothing there is said as well. */
function Plan({ approval, disabled, unread, decide, about }: IChoicesProps) {
  const { trans } = usePanel();
  const proposed = approval.arguments['budget_usd'];
  const [budget, setBudget] = useState(typeof proposed === 'number' ? exactMoney(proposed) : '');
  const begin = (event: FormEvent) => {
    event.preventDefault();
    if (unread || disabled) {
      return;
    }
    decide('allow', budget.trim() || 'no budget');
  };
  return (
    <form className="kgs-form" onSubmit={begin}>
      <label className="kgs-soft">
        {trans.__('Budget, USD')}{' '}
        <input
          className="kgs-input kgs-short"
          type="text"
          inputMode="decimal"
          placeholder={trans.__('none')}
          value={budget}
          disabled={disabled}
          onChange={event => setBudget(event.target.value)}
        />
      </label>
      <button
        type="submit"
        className="kgs-button kgs-primary"
        aria-label={`${trans.__('Begin')}: ${about}`}
        disabled={disabled}
        aria-disabled={unread || undefined}
      >
        {trans.__('Begin')}
      </button>
      <Button disabled={disabled} name={`${trans.__('Cancel')}: ${about}`} onClick={() => decide('deny')}>
        {trans.__('Cancel')}
      </Button>
    </form>
  );
}

function Options({ approval, disabled, unread, decide, about }: IChoicesProps) {
  const { trans } = usePanel();
  const allowing = approval.options.filter(option => option !== NEVER);
  const word = (option: string) => {
    switch (option) {
      case THIS_CALL:
        return trans.__('Allow for this call');
      case THIS_RUN:
        return trans.__('Allow for this run');
      case THIS_SESSION:
        return trans.__('Allow for this session');
      default:
        // Enable and Approve say what they do.
        return approval.kind === 'plugin' ? visible(option) : trans.__('Allow: %1', visible(option));
    }
  };
  return (
    <>
      {allowing.map((option, index) => (
        <Button
          key={option}
          look={index === 0 ? 'primary' : 'plain'}
          disabled={disabled}
          locked={unread}
          name={`${word(option)}: ${about}`}
          onClick={() => decide('allow', option)}
        >
          {word(option)}
        </Button>
      ))}
      <Button disabled={disabled} name={`${trans.__('Deny')}: ${about}`} onClick={() => decide('deny')}>
        {trans.__('Deny')}
      </Button>
      {approval.options.includes(NEVER) && (
        <Button
          look="quiet"
          disabled={disabled}
          name={`${trans.__('Never in this session')}: ${about}`}
          onClick={() => decide('deny', NEVER)}
        >
          {trans.__('Never in this session')}
        </Button>
      )}
    </>
  );
}

function Question({ approval, disabled, decide }: IChoicesProps) {
  const { trans } = usePanel();
  const [answer, setAnswer] = useState('');
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (answer.trim()) {
      decide('allow', answer);
    }
  };
  return (
    <>
      {approval.options.length > 0 ? (
        approval.options.map(option => (
          <Button key={option} disabled={disabled} onClick={() => decide('allow', option)}>
            {visible(option)}
          </Button>
        ))
      ) : (
        <form className="kgs-form" onSubmit={send}>
          <input
            className="kgs-input"
            type="text"
            aria-label={trans.__('Your answer')}
            placeholder={trans.__('Your answer')}
            value={answer}
            disabled={disabled}
            onChange={event => setAnswer(event.target.value)}
          />
          <button type="submit" className="kgs-button kgs-primary" disabled={disabled || !answer.trim()}>
            {trans.__('Send')}
          </button>
        </form>
      )}
      <Button look="quiet" disabled={disabled} onClick={() => decide('deny')}>
        {trans.__('No answer')}
      </Button>
    </>
  );
}
