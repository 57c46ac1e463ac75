import { useEffect, useState } from 'react';

/** Typing is over when no key was pressed for so long; milliseconds. */
const TYPING_MS = 250;

export interface ISearchFieldProps {
  readonly label: string;
  /** What was looked for last. */
  readonly words: string;
  /** Called once typing is over; the same function at every drawing. */
  readonly onSearch: (words: string) => void;
}

/** A field that searches while one types; Escape empties it. */
export function SearchField({ label, words: before, onSearch }: ISearchFieldProps) {
  const [words, setWords] = useState(before);
  useEffect(() => {
    const timer = window.setTimeout(() => onSearch(words.trim()), TYPING_MS);
    return () => window.clearTimeout(timer);
  }, [onSearch, words]);
  return (
    <input
      className="kgs-input kgs-search"
      type="search"
      aria-label={label}
      placeholder={label}
      value={words}
      onChange={event => setWords(event.target.value)}
      onKeyDown={event => {
        if (event.key === 'Escape' && words) {
          event.stopPropagation();
          setWords('');
        }
      }}
    />
  );
}
