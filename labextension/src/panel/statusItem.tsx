import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Kagura } from '../model/kagura.js';
import { roundMoney } from '../model/words.js';
import { useSignal } from './hooks.js';
import { bellIcon } from './icons.js';

/** In the status bar: how many approvals wait, and what today cost. */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly _kagura: Kagura,
    private readonly _trans: TranslationBundle,
    private readonly _open: () => void
  ) {
    super();
    this.addClass('kgs-status');
  }

  protected override render() {
    return <Status kagura={this._kagura} trans={this._trans} open={this._open} />;
  }
}

interface IStatusProps {
  readonly kagura: Kagura;
  readonly trans: TranslationBundle;
  readonly open: () => void;
}

function Status({ kagura, trans, open }: IStatusProps) {
  useSignal(kagura.approvals.changed);
  useSignal(kagura.feed.changed);
  const waiting = kagura.approvals.pending.length;
  const cost = kagura.feed.status?.cost_today_usd ?? null;
  const words = [
    waiting > 0 ? trans._n('%1 waits', '%1 wait', waiting, waiting) : '',
    cost ? trans.__('%1 today', roundMoney(cost)) : ''
  ].filter(Boolean);
  return (
    <button
      type="button"
      className={waiting > 0 ? 'kgs-status-button kgs-waiting' : 'kgs-status-button'}
      title={trans.__('Show the agent runs')}
      aria-label={[trans.__('Agent runs'), ...words].join(', ')}
      onClick={open}
    >
      <bellIcon.react tag="span" className="kgs-status-icon" />
      {words.length > 0 && <span>{words.join(' · ')}</span>}
    </button>
  );
}
