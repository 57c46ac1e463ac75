import type { ISignal } from '@lumino/signaling';
import {
  useCallback,
  useEffect,
  useLayoutEffect,
  useReducer,
  useRef,
  useState,
  type KeyboardEvent,
  type RefObject
} from 'react';
import { usePanel } from './context.js';

/** Draws again whenever the signal is emitted. */
export function useSignal(signal: ISignal<unknown, unknown> | undefined): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const slot = () => draw();
    signal?.connect(slot);
    // What happened between the drawing and now.
    draw();
    return () => void signal?.disconnect(slot);
  }, [signal]);
}

/** The server's time in milliseconds, drawn again every second while `ticking`. */
export function useNow(ticking = true): number {
  const { ticker } = usePanel().kagura;
  const [now, setNow] = useState(() => ticker.now());
  useEffect(() => {
    if (!ticking) {
      return undefined;
    }
    setNow(ticker.now());
    return ticker.subscribe(() => setNow(ticker.now()));
  }, [ticker, ticking]);
  return now;
}

export interface IRoving {
  /** The item that the Tab key reaches. */
  readonly current: number;
  readonly onKeyDown: (event: KeyboardEvent) => void;
  /** Makes an item the current one, because it got the focus or is to get it. */
  readonly move: (index: number, focus?: boolean) => void;
  readonly item: (index: number) => IRovingItem;
}

/** What an item of such a list is told. */
export interface IRovingItem {
  /** Whether the Tab key stops at it. */
  readonly current: boolean;
  /** Whether it is to take the focus once it is drawn; until it has it. */
  readonly claimsFocus: () => boolean;
  readonly onFocus: () => void;
}

/**
 * A list is one stop of the Tab key; the arrow keys, Home and End move inside it.
 *
 * Keys that were pressed inside an item, in its buttons or fields, are left alone.
 */
export function useRoving(count: number, pageSize = 8): IRoving {
  const [wanted, setCurrent] = useState(0);
  const claim = useRef<number | null>(null);
  const current = Math.max(0, Math.min(wanted, count - 1));
  const move = useCallback((index: number, focus = false) => {
    claim.current = focus ? index : null;
    setCurrent(index);
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + pageSize,
      PageUp: current - pageSize,
      Home: 0,
      End: count - 1
    };
    const step = steps[event.key];
    const onItem = (event.target as HTMLElement).dataset['item'] !== undefined;
    if (step === undefined || !onItem || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    move(Math.max(0, Math.min(count - 1, step)), true);
  };
  const item = (index: number): IRovingItem => ({
    current: index === current,
    claimsFocus: () => claim.current === index,
    onFocus: () => move(index)
  });
  return { current, onKeyDown, move, item };
}

/**
 * Lets an item of a roving list take the focus that it claims.
 *
 * The claim is asked for after each drawing: an item that draws itself again by itself must not take the focus back.
 */
export function useClaimedFocus(
  item: RefObject<HTMLElement>,
  claimsFocus: () => boolean,
  options?: FocusOptions
): void {
  useLayoutEffect(() => {
    if (claimsFocus()) {
      item.current?.focus(options);
    }
  });
}

/** Enter and Space on an item itself, not on a button in it. */
export function onActivate(act: () => void): (event: KeyboardEvent) => void {
  return event => {
    if (event.target === event.currentTarget && (event.key === 'Enter' || event.key === ' ')) {
      event.preventDefault();
      act();
    }
  };
}
