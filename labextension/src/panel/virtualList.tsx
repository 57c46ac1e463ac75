import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import { usePanel } from './context.js';
import { useRoving, type IRovingItem } from './hooks.js';
import { Button } from './parts.js';

/** Rows drawn above and below what can be seen, so that a fast wheel meets no gap. */
const SPARE_ROWS = 12;

/** With so many rows left below, the next ones are asked for. */
const NEAR_END_ROWS = 60;

/** What scrolls: the panel, with all that stands in it. */
const SCROLLER = '.kgs-scroll';

export interface IVirtualListProps<T> {
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly label: string;
  readonly keyOf: (item: T) => string;
  readonly row: (item: T, props: IRovingItem) => ReactNode;
  /** Called when the end comes near. */
  readonly onNearEnd: () => void;
}

/** How many rows stand there until somebody wants all of them: what is below is to be in reach. */
const FEW_ROWS = 8;

/** The first rows of a list, and all of them once they are asked for. */
export function FewRows<T>(props: IVirtualListProps<T>) {
  const { trans } = usePanel();
  const [all, setAll] = useState(false);
  const hidden = props.items.length - FEW_ROWS;
  const items = all ? props.items : props.items.slice(0, FEW_ROWS);
  return (
    <>
      {hidden > 0 && (
        <div className="kgs-all">
          <Button look="quiet" onClick={() => setAll(!all)}>
            {all ? trans.__('Show the first %1', FEW_ROWS) : trans.__('Show all')}
          </Button>
        </div>
      )}
      <VirtualList
        {...props}
        items={items}
        onNearEnd={all || hidden <= 0 ? props.onNearEnd : () => undefined}
      />
    </>
  );
}

/** A list of rows of one height, of which only those that can be seen are drawn; any number scrolls alike. */
export function VirtualList<T>({ items, rowHeight, label, keyOf, row, onNearEnd }: IVirtualListProps<T>) {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const roving = useRoving(items.length, Math.max(1, Math.floor(view.height / rowHeight) - 1));

  useLayoutEffect(() => {
    const node = frame.current;
    const scroller = node?.closest(SCROLLER);
    if (!node || !scroller) {
      return undefined;
    }
    const look = () => setView({ top: Math.max(0, -below(scroller, node)), height: scroller.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(scroller);
    scroller.addEventListener('scroll', look, { passive: true });
    return () => {
      observer.disconnect();
      scroller.removeEventListener('scroll', look);
    };
  }, []);

  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + SPARE_ROWS);
  // One that has become short while another place was looked at still has rows.
  const first = Math.max(0, Math.min(last, Math.floor(view.top / rowHeight)) - SPARE_ROWS);

  useEffect(() => {
    if (items.length - last < NEAR_END_ROWS) {
      onNearEnd();
    }
  });

  // The row that the arrow keys moved to may lie outside of what is drawn.
  useLayoutEffect(() => {
    const node = frame.current;
    const scroller = node?.closest(SCROLLER);
    if (node && scroller && node.contains(document.activeElement) && document.activeElement !== node) {
      const top = below(scroller, node) + roving.current * rowHeight;
      if (top < 0) {
        scroller.scrollTop += top;
      } else if (top + rowHeight > scroller.clientHeight) {
        scroller.scrollTop += top + rowHeight - scroller.clientHeight;
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

/** How far below the upper edge of what scrolls something begins; negative above it. */
function below(scroller: Element, node: Element): number {
  return node.getBoundingClientRect().top - scroller.getBoundingClientRect().top;
}
