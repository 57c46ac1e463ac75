import type { TranslationBundle } from '@jupyterlab/translation';
import { useRef } from 'react';
import type { Kagura } from '../../model/kagura.js';
import { oneLine, visible } from '../../model/visible.js';
import { clockFace, span } from '../../model/words.js';
import type { ILease } from '../../api/schema.js';
import type { ISection } from '../../tokens.js';
import { usePanel } from '../context.js';
import { type IRovingItem, useClaimedFocus, useNow, useRoving, useSignal } from '../hooks.js';
import { Button, Empty, Problem } from '../parts.js';

export const LEASES_ID = 'leases';

/** With so many seconds left the time is shown as a warning. */
const SOON = 60;

/** The credentials that runs hold just now. */
export function leasesSection(kagura: Kagura, trans: TranslationBundle): ISection {
  return {
    id: LEASES_ID,
    title: trans.__('Leases'),
    rank: 300,
    badge: () => (kagura.leases.items.length > 0 ? String(kagura.leases.items.length) : ''),
    changed: kagura.leases.changed,
    render: () => <Leases />
  };
}

function Leases() {
  const { kagura, trans } = usePanel();
  const model = kagura.leases;
  useSignal(model.changed);
  const roving = useRoving(model.items.length);
  return (
    <>
      <Problem problem={model.problem} />
      {model.items.length === 0 && model.loaded && (
        <Empty title={trans.__('No credential is lent')}>
          {trans.__(
            'A credential that a run was allowed to hold stands here with the time it has left, and can be taken back.'
          )}
        </Empty>
      )}
      {model.items.length > 0 && (
        <ul className="kgs-leases" aria-label={trans.__('Leases')} onKeyDown={roving.onKeyDown}>
          {model.items.map((lease, index) => (
            <Lease
              key={lease.lease_id}
              lease={lease}
              revoking={model.revoking(lease.lease_id)}
              {...roving.item(index)}
            />
          ))}
        </ul>
      )}
    </>
  );
}

interface ILeaseProps extends IRovingItem {
  readonly lease: ILease;
  readonly revoking: boolean;
}

function Lease({ lease, revoking, current, claimsFocus, onFocus }: ILeaseProps) {
  const { kagura, trans } = usePanel();
  const item = useRef<HTMLLIElement>(null);
  useClaimedFocus(item, claimsFocus);
  const name = visible(lease.provider);
  return (
    <li ref={item} className="kgs-lease" tabIndex={current ? 0 : -1} data-item="" onFocus={onFocus}>
      <div className="kgs-lease-top">
        <strong className="kgs-title">{name}</strong>
        <span className="kgs-spring" />
        <Left lease={lease} />
        {lease.revocable && (
          <Button
            look="quiet"
            disabled={revoking}
            name={trans.__('Revoke %1: %2', name, oneLine(lease.scope, 80))}
            tabIndex={current ? 0 : -1}
            onClick={() => void kagura.leases.revoke(lease.lease_id)}
          >
            {revoking ? trans.__('Revoking …') : trans.__('Revoke')}
          </Button>
        )}
      </div>
      <div className="kgs-facts">
        <code>{visible(lease.scope)}</code>
        {lease.way && (
          <span>{lease.place ? `${visible(lease.way)} ${visible(lease.place)}` : visible(lease.way)}</span>
        )}
        {lease.budget_left_seconds !== null && (
          <span>{trans.__('%1 of its budget left', span(lease.budget_left_seconds))}</span>
        )}
        {lease.renewals_left !== null && (
          <span>
            {trans._n('%1 renewal left', '%1 renewals left', lease.renewals_left, lease.renewals_left)}
          </span>
        )}
      </div>
    </li>
  );
}

function Left({ lease }: { readonly lease: ILease }) {
  const { trans } = usePanel();
  const now = useNow();
  if (lease.state === 'minting') {
    return <span className="kgs-soft">{trans.__('being made')}</span>;
  }
  if (lease.state === 'owed') {
    return <span className="kgs-tone-warn">{trans.__('being given back')}</span>;
  }
  const left = (Date.parse(lease.expires_at ?? '') - now) / 1000;
  return Number.isNaN(left) ? null : (
    <span className={left < SOON ? 'kgs-figure kgs-tone-warn' : 'kgs-figure'}>{clockFace(left)}</span>
  );
}
