import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCosts, readMemories, readPluginAudit, readPlugins, readStatus } from '../api/schema.js';

test('what is missing or of another type gets a harmless default', () => {
  const none = { version: '', pending: 0, live: 0, cost_today_usd: null, unpriced_today: 0, seq: 0 };
  assert.deepEqual(readStatus(undefined), none);
  assert.deepEqual(readStatus({ pending: '3', live: NaN, cost_today_usd: 'much', further: 1 }), none);
});

test('what cannot be read is neither trusted nor without danger', () => {
  assert.equal(readMemories({ items: [{ id: 'mem-1', tier: 'gold' }] }).items[0]?.tier, 'quarantine');
  assert.equal(readPluginAudit({ dangerous: 'no' }).dangerous, true);
  assert.equal(readPluginAudit({ dangerous: false }).dangerous, false);
});

test('an object without the field that names it is left out, or is none', () => {
  assert.deepEqual(
    readMemories({ items: [{}, null, 'x', { id: 'mem-1' }] }).items.map(one => one.id),
    ['mem-1']
  );
  const plugins = readPlugins({
    items: [{ name: 'greeter', modules: ['a', 7, ''], config: { a: 1 } }],
    session: {}
  });
  assert.equal(plugins.session, null);
  assert.deepEqual(plugins.items[0]?.modules, ['a']);
  assert.deepEqual(plugins.items[0]?.config, { a: '' });
  assert.equal(plugins.items[0]?.opens, null);
  assert.equal(plugins.items[0]?.audit_run, null);
});

test('a sum that is unknown is none, and never nothing', () => {
  const costs = readCosts({ today: {}, budget: { usd_spent: 1 }, by_day: [{ day: '2026-01-01' }, {}] });
  assert.deepEqual(costs.today, { usd: null, runs: 0, unpriced_runs: 0 });
  assert.equal(costs.notebook, null);
  assert.equal(costs.budget, null);
  assert.equal(costs.by_day.length, 1);
});
