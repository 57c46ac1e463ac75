import { useState } from 'react';
import { usePanel } from './context.js';
import { Button } from './parts.js';

/** What can be chosen in the notebook in front: each model with its words, and the one that is chosen. */
export interface IOfferedModels {
  readonly models: readonly (readonly [string, string])[];
  readonly current: string;
  /** Why there is nothing to choose; empty where there is. */
  readonly problem: string;
}

/** Asks the kernel of the notebook in front; null where there is none. */
export interface IModels {
  offered(): Promise<IOfferedModels | null>;
  use(name: string): Promise<IOfferedModels | null>;
}

/** Which model the next cells think with, and what each costs; asked for when it is opened. */
export function ModelPicker({ models }: { readonly models: IModels }) {
  const { trans, tell } = usePanel();
  const [shown, show] = useState<IOfferedModels | null>(null);
  const [waits, setWaits] = useState(false);
  const ask = async (answer: Promise<IOfferedModels | null>, then = '') => {
    setWaits(true);
    const found = await answer.catch(() => null);
    setWaits(false);
    if (!found || found.models.length === 0) {
      tell(
        found?.problem || trans.__('Open a notebook with a kernel first: the models are those of its cells.')
      );
      return;
    }
    show(found);
    if (then) {
      tell(then);
    }
  };
  if (!shown) {
    return (
      <Button look="quiet" locked={waits} onClick={() => void ask(models.offered())}>
        {waits ? trans.__('Asking the kernel …') : trans.__('Model')}
      </Button>
    );
  }
  const choose = (name: string) =>
    void ask(models.use(name), trans.__('The next cells of this notebook think with %1.', name));
  return (
    <label className="kgs-model">
      <span className="kgs-unseen">{trans.__('Model')}</span>
      <select
        value={shown.current}
        disabled={waits}
        title={trans.__('For the next cells; USD for a million tokens')}
        onChange={event => choose(event.target.value)}
      >
        {!shown.models.some(([name]) => name === shown.current) && (
          <option value={shown.current}>{shown.current || trans.__('the brain’s own choice')}</option>
        )}
        {shown.models.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
