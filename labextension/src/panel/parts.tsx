import type { ReactNode } from 'react';
import type { IProblem } from '../api/result.js';
import { problemWords } from '../model/words.js';
import { visible } from '../model/visible.js';
import type { IOrigin } from '../tokens.js';
import { usePanel } from './context.js';

export interface IButtonProps {
  readonly children: ReactNode;
  readonly onClick: () => void;
  readonly look?: 'primary' | 'quiet' | 'plain';
  /** What it is about, where several look alike; it begins with what stands on the button. */
  readonly name?: string;
  readonly disabled?: boolean;
  /** Whether it does nothing yet; unlike a disabled one it can have the focus while it waits. */
  readonly locked?: boolean;
  readonly tabIndex?: number;
}

export function Button({
  children,
  onClick,
  look = 'plain',
  name,
  disabled,
  locked,
  tabIndex
}: IButtonProps) {
  return (
    <button
      type="button"
      className={`kgs-button kgs-${look}`}
      aria-label={name}
      disabled={disabled}
      aria-disabled={locked || undefined}
      tabIndex={tabIndex}
      onClick={locked ? undefined : onClick}
    >
      {children}
    </button>
  );
}

/** Says what a section is for while there is nothing in it. */
export function Empty({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div className="kgs-empty">
      <p className="kgs-empty-title">{title}</p>
      <p>{children}</p>
    </div>
  );
}

export function Problem({ problem }: { readonly problem: IProblem | null }) {
  const { trans } = usePanel();
  return problem ? (
    <p className="kgs-problem" role="status">
      {problemWords(trans, problem)}
    </p>
  ) : null;
}

/** Text of unknown authors, exactly as it is, with what cannot be seen made visible; with its end marked where that counts. */
export function Exactly({ text, end = false }: { readonly text: string; readonly end?: boolean }) {
  return (
    // What has to be read to its end can be scrolled by keys.
    <pre className="kgs-exactly" tabIndex={end ? 0 : -1}>
      {visible(text)}
      {end && <i data-end="" />}
    </pre>
  );
}

/** The name of a notebook without its folders; empty for none. */
export function notebookName(path: string): string {
  return visible(path.split('/').pop() ?? '');
}

export interface IOriginProps {
  readonly origin: IOrigin & { readonly session_id: string };
  readonly tabIndex?: number;
}

/** The notebook that something came from, as a way to its cell; without one, the session that somebody named. */
export function Origin({ origin, tabIndex }: IOriginProps) {
  const { trans } = usePanel();
  const goTo = useJump(origin);
  if (!origin.notebook && !origin.kernel_id) {
    // Those that nobody named tell a person nothing; a chat's begin with its name.
    const words = origin.session_id.startsWith('ses-')
      ? trans.__('from no notebook')
      : trans.__('from the session %1', visible(origin.session_id));
    return <span className="kgs-soft">{words}</span>;
  }
  const name = notebookName(origin.notebook) || trans.__('its notebook');
  return (
    <button
      type="button"
      className="kgs-link"
      title={visible(origin.notebook)}
      aria-label={trans.__('Go to the cell in %1', name)}
      tabIndex={tabIndex}
      onClick={goTo}
    >
      {name}
    </button>
  );
}

/** Shows the cell; where that cannot be done, says why. */
export function useJump(origin: IOrigin): () => void {
  const { jump, tell } = usePanel();
  return () => void jump(origin).then(sentence => sentence && tell(sentence));
}
