import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Places } from '../model/places.js';

test('a notebook below the root has a name for the server and one for the journal', () => {
  const places = new Places('file:///home/ada%20l/work/');
  assert.equal(places.ofJournal('sales/a.ipynb'), '/home/ada l/work/sales/a.ipynb');
  assert.equal(places.ofServer('/home/ada l/work/sales/a.ipynb'), 'sales/a.ipynb');
});

test('what lies elsewhere, or has no root to stand on, is left alone', () => {
  const places = new Places('file:///home/ada');
  assert.equal(places.ofServer('/home/adam/a.ipynb'), '/home/adam/a.ipynb');
  assert.equal(places.ofServer('a.ipynb'), 'a.ipynb');
  assert.equal(places.ofJournal(''), '');
  const nowhere = new Places('');
  assert.deepEqual([nowhere.ofServer('/a.ipynb'), nowhere.ofJournal('a.ipynb')], ['/a.ipynb', 'a.ipynb']);
});
