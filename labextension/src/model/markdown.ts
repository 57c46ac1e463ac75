/** An answer of a model that JupyterLab draws: what is changed in it so that it can only be read. */

/** A fence of a drawing of Mermaid, which may fetch images while it is drawn; the word counts alone. */
const DRAWING = /(`{3}|~{3})([^\n\r]*mermaid)/gi;

/** Stands for a dollar sign that begins no formula; where an answer has it itself, that is shown as one too. */
export const DOLLAR = '\ue024';

/** Code in a fence, which is left alone; what is escaped; formulas; any other dollar sign. */
const DOLLARS =
  /^[ \t>*+-]*(`{3,}|~{3,})[^]*?(?:^[ \t>]*\1|(?![^]))|\\[^]|\$\$[^]+?\$\$|\$(?![\s$])(?:\\[^]|[^\\$])*?(?<!\s)\$(?!\d)|(\$)/gm;

/**
 * An answer as it is given to JupyterLab's renderer. Two prices in one sentence are no formula: those have no blank inside
 * their signs, and no digit after them. A drawing stays its source.
 */
export function readable(source: string): string {
  const apart = source.replace(DOLLARS, (found, _fence, sign?: string) => (sign ? DOLLAR : found));
  return apart.replace(DRAWING, '$1text $2');
}

/** The text, or the address, as it was before it was made `readable`. */
export function withDollars(text: string): string {
  return text.replaceAll(DOLLAR, '$').replaceAll(encodeURI(DOLLAR), '$');
}

/**
 * Commands of TeX that make a link, style the page, load something, write the name of such a command, or give one another
 * meaning, which all formulas of the page would have from then on.
 */
const ACTS =
  /\\(?:href|url|require|style|class|cssId|data|unicode|includegraphics|mmlToken|csname|[egx]?def|let|(?:re)?new(?:command|environment)|DeclareMathOperator)(?![a-zA-Z])/;

/** Whether a text holds formulas, and none that would do more than to be read. */
export function hasFormulas(text: string): boolean {
  return /\$|\\\(|\\\[|\\begin/.test(text) && !ACTS.test(text);
}

/** Where a link leads. */
export interface ILink {
  /** Its whole address. */
  readonly href: string;
  /** The host, or the address of mail, to be said beside a text that does not say it; empty where it does. */
  readonly said: string;
}

/** Where a link leads that is called `text`; null for what is none that a person may follow from a card. */
export function link(href: string, text: string): ILink | null {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return null;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:' && url.protocol !== 'mailto:') {
    return null;
  }
  const bare = (address: string) =>
    address
      .trim()
      .replace(/^(https?:\/\/|mailto:)/i, '')
      .replace(/\/$/, '');
  return { href: url.href, said: bare(text) === bare(url.href) ? '' : url.host || url.pathname };
}
