import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import { useRoving, type IRovingItem } from './hooks.js';

/** Rows drawn above and below what can be seen, so that a fast wheel meets no gap. */
const SPARE_ROWS = 12;

/** With so many rows left below, the next ones are asked for. */
const NEAR_END_ROWS = 60;

export interface IVirtualListProps<T> {
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly label: string;
  readonly keyOf: (item: T) => string;
  readonly row: (item: T, props: IRovingItem) => ReactNode;
  /** Called when the end comes near. */
  readonly onNearEnd: () => void;
}

/** A list of rows of one height, of which only those that can be seen are drawn; any number scrolls alike. */
export function VirtualList<T>({ items, rowHeight, label, keyOf, row, onNearEnd }: IVirtualListProps<T>) {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const roving = useRoving(items.length, Math.max(1, Math.floor(view.height / rowHeight) - 1));

  useLayoutEffect(() => {
    const node = frame.current;
    if (!node) {
      return undefined;
    }
    const observer = new ResizeObserver(() => setView({ top: node.scrollTop, height: node.clientHeight }));
    observer.observe(node);
    return () => observer.disconnect();
  }, []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE_ROWS);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + SPARE_ROWS);

  useEffect(() => {
    if (items.length - last < NEAR_END_ROWS) {
      onNearEnd();
    }
  });

  // The row that the arrow keys moved to may lie outside of what is drawn.
  useLayoutEffect(() => {
    const node = frame.current;
    const top = roving.current * rowHeight;
    if (node && node.contains(document.activeElement) && document.activeElement !== node) {
      if (top < node.scrollTop) {
        node.scrollTop = top;
      } else if (top + rowHeight > node.scrollTop + node.clientHeight) {
        node.scrollTop = top + rowHeight - node.clientHeight;
      }
    }
  }, [roving.current, rowHeight]);

  // What had the focus may have gone, such as a row that was removed: its place keeps the keyboard.
  const focused = useRef(false);
  useLayoutEffect(() => {
    if (focused.current && document.activeElement === document.body) {
      frame.current?.querySelector<HTMLElement>('[data-item][tabindex="0"]')?.focus({ preventScroll: true });
    }
  });

  const shown = new Set<number>();
  for (let index = first; index < last; index++) {
    shown.add(index);
  }
  // The row with the focus stays, wherever one scrolls: otherwise the focus would be lost.
  if (items.length > 0) {
    shown.add(roving.current);
  }
  return (
    <div
      className="kgs-virtual"
      ref={frame}
      onScroll={event =>
        setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })
      }
      onKeyDown={roving.onKeyDown}
      onFocus={() => {
        focused.current = true;
      }}
      onBlur={() => {
        focused.current = false;
      }}
    >
      <div
        role="list"
        aria-label={label}
        className="kgs-virtual-all"
        style={{ height: items.length * rowHeight }}
      >
        {[...shown]
          .sort((one, other) => one - other)
          .map(index => {
            const item = items[index] as T;
            return (
              <div
                key={keyOf(item)}
                role="listitem"
                aria-setsize={items.length}
                aria-posinset={index + 1}
                className="kgs-virtual-row"
                style={{ height: rowHeight, transform: `translateY(${index * rowHeight}px)` }}
              >
                {row(item, roving.item(index))}
              </div>
            );
          })}
      </div>
    </div>
  );
}
