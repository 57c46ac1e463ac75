import type { TranslationBundle } from '@jupyterlab/translation';
import { COST_DAYS } from '../../model/costs.js';
import { costByDay, costByModel } from '../../model/costSums.js';
import type { Kagura } from '../../model/kagura.js';
import { visible } from '../../model/visible.js';
import { money } from '../../model/words.js';
import type { IBudget, ICosts, ISpending } from '../../api/schema.js';
import type { ISection } from '../../tokens.js';
import { CostChart } from '../costChart.js';
import { usePanel } from '../context.js';
import { useNow, useSignal } from '../hooks.js';
import { Empty, notebookName, Problem } from '../parts.js';

export const COSTS_ID = 'costs';

/** What was spent: today, in this notebook, of the budget, and day by day. */
export function costsSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: COSTS_ID,
    title: trans.__('Costs'),
    rank: 400,
    stays: true,
    badge: () => money(kagura.feed.status?.cost_today_usd ?? null),
    changed: kagura.feed.changed,
    render: () => <Costs />
  };
}

function Costs() {
  const { kagura, trans } = usePanel();
  const model = kagura.costs;
  useSignal(model.changed);
  const costs = model.value;
  return (
    <div className="kgs-costs">
      <Problem problem={model.problem} />
      {costs && (
        <>
          <dl className="kgs-sums">
            <Sum name={trans.__('Today')} spent={costs.today} />
            {costs.notebook && <Sum name={notebookName(model.notebook)} spent={costs.notebook} />}
          </dl>
          {costs.budget && <Budget budget={costs.budget} />}
          <Days costs={costs} />
        </>
      )}
    </div>
  );
}

function Sum({ name, spent }: { readonly name: string; readonly spent: ISpending }) {
  const { trans } = usePanel();
  const runs = trans._n('%1 run', '%1 runs', spent.runs, spent.runs);
  const unpriced = spent.unpriced_runs > 0 ? trans.__('%1 without a price', spent.unpriced_runs) : '';
  return (
    <div className="kgs-sum">
      <dt>{name}</dt>
      <dd>
        <span className="kgs-amount">{spent.usd === null ? trans.__('unknown') : money(spent.usd)}</span>
        <span className="kgs-soft">{[runs, unpriced].filter(Boolean).join(', ')}</span>
      </dd>
    </div>
  );
}

function Budget({ budget }: { readonly budget: IBudget }) {
  const { trans } = usePanel();
  const share = budget.usd_limit > 0 ? Math.min(1, (budget.usd_spent ?? 0) / budget.usd_limit) : 1;
  const words = trans.__(
    '%1 of %2 spent',
    money(budget.usd_spent) || trans.__('unknown'),
    money(budget.usd_limit)
  );
  return (
    <div className="kgs-budget">
      <div className="kgs-budget-words">
        <span>{trans.__('Budget of the run')}</span>
        <span className="kgs-spring" />
        <span className="kgs-figure">{words}</span>
      </div>
      <div
        className="kgs-meter"
        role="meter"
        aria-label={trans.__('Budget of the run')}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={words}
      >
        <i className={share > 0.8 ? 'kgs-near' : ''} style={{ transform: `scaleX(${share.toFixed(3)})` }} />
      </div>
    </div>
  );
}

function Days({ costs }: { readonly costs: ICosts }) {
  const { trans } = usePanel();
  const now = useNow(false);
  const days = costByDay(costs.by_day, now, COST_DAYS);
  const models = costByModel(costs.by_day);
  if (models.length === 0) {
    return (
      <Empty title={trans.__('No run in these days')}>
        {trans.__('Once a brain has thought, its price stands here, by day and by model.')}
      </Empty>
    );
  }
  return (
    <>
      <CostChart days={days} />
      <details className="kgs-details">
        <summary>{trans.__('By model, %1 days', COST_DAYS)}</summary>
        <table className="kgs-table">
          <thead>
            <tr>
              <th scope="col">{trans.__('Model')}</th>
              <th scope="col">{trans.__('Runs')}</th>
              <th scope="col">{trans.__('Cost')}</th>
            </tr>
          </thead>
          <tbody>
            {models.map(row => (
              <tr key={`${row.brain} ${row.model}`}>
                <td>{visible(row.model || row.brain) || trans.__('no brain')}</td>
                <td>{row.runs}</td>
                <td>{money(row.usd) || trans.__('unknown')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
}
