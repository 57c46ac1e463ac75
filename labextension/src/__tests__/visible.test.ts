import assert from 'node:assert/strict';
import { test } from 'node:test';
import { oneLine, visible } from '../model/visible.js';

test('what cannot be seen is written out', () => {
  assert.equal(visible('a\u202eb'), 'a⟨U+202E⟩b');
  assert.equal(visible('\u0000\u001b[31m'), '⟨U+0000⟩⟨U+001B⟩[31m');
  assert.equal(visible('\u{e0041}'), '⟨U+E0041⟩');
  assert.equal(visible('\ud800'), '⟨U+D800⟩');
  assert.equal(visible('\u200b\ufeff\u3164'), '⟨U+200B⟩⟨U+FEFF⟩⟨U+3164⟩');
});

test('line ends, tabs, emoji and other scripts stay as they are', () => {
  const text = 'a\n\tb 👩‍👩‍👧 神楽 مرحبا';
  assert.equal(visible(text), text);
});

test('one line holds no line end and is cut between letters', () => {
  assert.equal(oneLine('a\n b\t c'), 'a b c');
  assert.equal(oneLine('😀'.repeat(10), 4), '😀😀😀…');
});
