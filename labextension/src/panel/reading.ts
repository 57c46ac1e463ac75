import { useEffect, useState, type RefObject } from 'react';

/** Half of the mark at the end of a text: as much of it as of its last line has to be in sight. */
const ENOUGH = 0.5;

/** Whether the ends of all texts in a card, each marked with `data-end`, have been on screen. */
export function useRead(card: RefObject<HTMLElement>, texts: number): boolean {
  const [read, setRead] = useState<ReadonlySet<Element>>(new Set());
  useEffect(() => {
    const observer = new IntersectionObserver(
      entries => {
        const seen = entries.filter(entry => entry.isIntersecting).map(entry => entry.target);
        setRead(before => (seen.every(end => before.has(end)) ? before : new Set([...before, ...seen])));
      },
      { threshold: ENOUGH }
    );
    card.current?.querySelectorAll('[data-end]').forEach(end => observer.observe(end));
    return () => observer.disconnect();
  }, [card, texts]);
  return read.size >= texts;
}
