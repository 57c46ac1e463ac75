/**
 * Text from models, boxes and files, made safe to look at: the same rules as the cards of a notebook have.
 *
 * React never takes text for markup. What is left is text that poses as something else by characters that nobody sees.
 */

// Zero-width joiners stay: emoji and several scripts are written with them.
const ODD = new RegExp(
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f' +
    '\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0' +
    '\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]',
  'gu'
);

/** The text with every character that cannot be seen written out, `⟨U+202E⟩`; line ends and tabs stay. */
export function visible(text: string): string {
  return text.replace(ODD, found => {
    const code = (found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    return `⟨U+${code}⟩`;
  });
}

/** The text on one line, at most `limit` characters, odd characters visible. */
export function oneLine(text: string, limit = 160): string {
  // Only so much is looked at: a task may be a whole file.
  const line = visible(text.slice(0, limit * 4))
    .split(/\s+/u)
    .filter(Boolean)
    .join(' ');
  const letters = Array.from(line);
  return letters.length <= limit
    ? line
    : `${letters
        .slice(0, limit - 1)
        .join('')
        .trimEnd()}…`;
}
