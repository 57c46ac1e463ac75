import type { IDaySum } from '../model/costSums.js';
import { money, roundMoney } from '../model/words.js';
import { usePanel } from './context.js';

/** A bar for each day. Figures stand in its label, so nothing is told by the picture alone. */
export function CostChart({ days }: { readonly days: readonly IDaySum[] }) {
  const { trans } = usePanel();
  const highest = Math.max(...days.map(day => day.usd), 0);
  const told = days.map(day => `${dayName(day.day, 'long')} ${roundMoney(day.usd)}`).join(', ');
  return (
    <div className="kgs-chart" role="img" aria-label={trans.__('Cost by day: %1', told)}>
      {days.map(day => (
        <div key={day.day} className="kgs-chart-day" title={`${day.day}: ${money(day.usd)}`}>
          <div className="kgs-chart-space">
            <i
              style={{
                height: `${highest > 0 ? Math.max(day.usd > 0 ? 4 : 0, (100 * day.usd) / highest) : 0}%`
              }}
            />
          </div>
          <span aria-hidden="true">{dayName(day.day, 'narrow')}</span>
        </div>
      ))}
    </div>
  );
}

function dayName(day: string, length: 'narrow' | 'long'): string {
  return new Intl.DateTimeFormat(undefined, { weekday: length, timeZone: 'UTC' }).format(
    new Date(`${day}T00:00:00Z`)
  );
}
