import { visible } from '../model/visible.js';

/** Whether a text is a unified diff: it has a hunk, and something in it changes. */
export function isDiff(text: string): boolean {
  return /^@@ /mu.test(text) && /^[+-]/mu.test(text);
}

/** A unified diff with its lines coloured, and told apart without colours by their signs. */
export function Diff({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div className="kgs-diff" role="group" aria-label={label} tabIndex={0}>
      {text.split('\n').map((line, index) => (
        <div key={index} className={`kgs-diff-line ${lineClass(line)}`}>
          {visible(line) || ' '}
        </div>
      ))}
    </div>
  );
}

function lineClass(line: string): string {
  if (line.startsWith('@@') || line.startsWith('+++') || line.startsWith('---')) {
    return 'kgs-diff-head';
  }
  if (line.startsWith('+')) {
    return 'kgs-diff-add';
  }
  return line.startsWith('-') ? 'kgs-diff-del' : '';
}
