import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';

const SOURCE = resolve(import.meta.dirname ?? '.', '..', '..', 'src');
/** From the top to the bottom; what is imported lies further down or in the same room. */
const ROOMS = ['plugins', 'panel', 'model', 'api', 'tokens'];
/** What of the panel is a widget of Lumino; all the rest can be drawn anywhere. */
const WIDGETS = ['panel/widget.tsx', 'panel/statusItem.tsx', 'panel/icons.ts', 'panel/settingsForm.tsx'];

function files(folder: string): string[] {
  return readdirSync(folder).flatMap(name => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? (name === '__tests__' ? [] : files(path)) : [path];
  });
}

/** The modules that a file imports; types too unless `values`. */
function imports(path: string, values = false): string[] {
  const statements = readFileSync(path, 'utf8').matchAll(
    /^(?:import|export)\s+(type\s+)?[^;]*?from\s+'([^']+)';/gms
  );
  return [...statements].filter(found => !(values && found[1])).map(found => found[2] ?? '');
}

function room(path: string): string {
  return (relative(SOURCE, path).split('/')[0] ?? '').replace(/\.ts$/, '');
}

const ALL = files(SOURCE).filter(path => room(path) !== 'index');

test('there is something to look at', () => {
  assert.ok(ALL.length > 20);
  assert.deepEqual([...new Set(ALL.map(room))].sort(), [...ROOMS].sort());
});

test('imports go down only: plugins, panel, model, api, tokens', () => {
  const wrong = ALL.flatMap(path =>
    imports(path)
      .filter(name => name.startsWith('.'))
      .map(name => resolve(dirname(path), name))
      .filter(target => ROOMS.indexOf(room(target.replace(/\.js$/, '.ts'))) < ROOMS.indexOf(room(path)))
      .map(target => `${relative(SOURCE, path)} imports ${relative(SOURCE, target)}`)
  );
  assert.deepEqual(wrong, []);
});

test('below the plugins only the widgets need JupyterLab, so everything else can be tested without it', () => {
  const wrong = ALL.filter(path => room(path) !== 'plugins' && !WIDGETS.includes(relative(SOURCE, path)))
    .filter(path => imports(path, true).some(name => name.startsWith('@jupyterlab/')))
    .map(path => relative(SOURCE, path));
  assert.deepEqual(wrong, []);
});

test('nothing sets markup from text', () => {
  const wrong = ALL.filter(path =>
    /dangerouslySetInnerHTML|(inner|outer)HTML\s*\+?=(?!=)|insertAdjacentHTML/.test(
      readFileSync(path, 'utf8')
    )
  );
  assert.deepEqual(wrong, []);
});
