import type { TranslationBundle } from '@jupyterlab/translation';
import { createContext, useContext } from 'react';
import type { Kagura } from '../model/kagura.js';
import type { IOrigin } from '../tokens.js';

/** What the sections need from outside: the state, the words, and how to get to a cell. */
export interface IPanelContext {
  readonly kagura: Kagura;
  readonly trans: TranslationBundle;
  /** Opens the notebook and shows the cell. Resolves with a sentence when it could not, otherwise with nothing. */
  readonly jump: (origin: IOrigin) => Promise<string>;
  /**
   * Runs a cell in the notebook in front that asks what is to think. Resolves with a sentence when there is none,
   * otherwise with nothing.
   */
  readonly setUp: () => Promise<string>;
  /** Has a sentence read out, and shown for a while. */
  readonly tell: (sentence: string) => void;
}

const Context = createContext<IPanelContext | null>(null);

export const PanelContext = Context.Provider;

export function usePanel(): IPanelContext {
  const context = useContext(Context);
  if (!context) {
    throw new Error('A section is drawn inside the panel.');
  }
  return context;
}
