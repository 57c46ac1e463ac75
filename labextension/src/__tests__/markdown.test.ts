import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOLLAR, hasFormulas, link, readable, withDollars } from '../model/markdown.js';

test('dollar signs are formulas only where they stand close to what is between them', () => {
  for (const kept of [
    '$x^2$',
    'so $a$ and $b$',
    '$$\n x + 1 \n$$',
    '\\$5, $x$',
    '$a\\$b$',
    '```sh\necho $A\n```'
  ]) {
    assert.equal(readable(kept), kept);
  }
  const apart = (source: string) => readable(source).replaceAll(DOLLAR, '€');
  assert.equal(apart('from $5 to $10'), 'from €5 to €10');
  assert.equal(apart('$5-$10'), '€5-€10');
  assert.equal(apart('$5, for $x$'), '€5, for $x$');
  assert.equal(apart('```\n$A\n```\n$5'), '```\n$A\n```\n€5');
  assert.equal(withDollars(readable('$5 `$A` $6')), '$5 `$A` $6');
  assert.equal(withDollars(encodeURI(readable('https://a.example/$x'))), 'https://a.example/$x');
});

test('a formula that would do more than to be read leaves the text as it is', () => {
  assert.ok(hasFormulas('$\\frac{1}{2}$ and $\\hrefs$ and $\\left(\\defeq\\right)$'));
  assert.ok(!hasFormulas('no formula'));
  for (const name of [
    'href{https://a.example}',
    'style{color:red}',
    'require{html}',
    'csname href\\endcsname',
    'gdef\\text#1{y}',
    'let\\text\\relax',
    'renewcommand{\\text}{y}'
  ]) {
    assert.ok(!hasFormulas(`$x$ and $\\${name}{x}$`), name);
  }
});

test('a drawing of Mermaid is a text', () => {
  for (const fence of ['```', '~~~~', '- ```', '> ~~~ ']) {
    const [first = ''] = readable(`${fence}mermaid\ngraph`).split('\n');
    assert.match(first, /text .*mermaid$/);
  }
  assert.equal(readable('a mermaid'), 'a mermaid');
});

test('a link says where it leads unless its text is that address', () => {
  const said = (href: string, text: string) => link(href, text)?.said;
  assert.equal(said('https://docs.example/a', 'https://docs.example/a'), '');
  assert.equal(said('https://docs.example/', 'docs.example'), '');
  assert.equal(said('https://evil.example/x', 'https://bank.example'), 'evil.example');
  assert.equal(said('https://bank.example@evil.example/', 'bank.example'), 'evil.example');
  assert.equal(said('https://bаnk.example/', 'https://bаnk.example/'), 'xn--bnk-6cd.example');
  assert.equal(said('mailto:ann@evil.example', 'ann@bank.example'), 'ann@evil.example');
  for (const none of [
    'javascript:alert(1)',
    'notes.md',
    '#top',
    'file:///etc/passwd',
    'data:text/html,x',
    '//a.example'
  ]) {
    assert.equal(link(none, 'x'), null, none);
  }
});
