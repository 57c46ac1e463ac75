import type { ISignal } from '@lumino/signaling';
import { oneLine } from '../model/visible.js';
import { usePanel } from './context.js';
import { useSignal } from './hooks.js';
import { Button } from './parts.js';

/** The active cell, as far as it shows an error. */
export interface IFailure {
  readonly changed: ISignal<unknown, void>;
  /** The error's last line; empty where the cell shows none. */
  readonly told: () => string;
  /** Asks an agent about it, in a new cell below. */
  readonly ask: (word: 'fix' | 'explain') => void;
}

/** What an agent can be asked about the cell that failed; nothing where none has. */
export function FailedCell({ failure }: { readonly failure: IFailure }) {
  const { trans } = usePanel();
  useSignal(failure.changed);
  const told = failure.told();
  return told ? (
    <div className="kgs-failed" role="group" aria-label={trans.__('The active cell failed')}>
      <p>{oneLine(told)}</p>
      <Button look="primary" onClick={() => failure.ask('fix')}>
        {trans.__('Fix this cell')}
      </Button>
      <Button onClick={() => failure.ask('explain')}>{trans.__('Explain this error')}</Button>
    </div>
  ) : null;
}
