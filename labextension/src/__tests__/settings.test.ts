import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KaguraClient, type IRequest } from '../api/client.js';
import { SettingsModel } from '../model/settings.js';

const FORM = {
  type: 'object',
  properties: { recall: { type: 'integer' }, box: { type: 'string' }, net: {} }
};
const TOLD = {
  path: '/home/ann/config.toml',
  version: 'v1',
  form: FORM,
  values: { recall: 5, box: 'auto', net: ['ask'] },
  sources: {},
  locked: {},
  problems: {}
};

function served(answers: readonly (readonly [number, object])[]) {
  const asked: IRequest[] = [];
  const send = (_path: string, request: IRequest) => {
    const [status, body] = answers[asked.length] ?? [500, {}];
    asked.push(request);
    const headers = { get: () => null };
    return Promise.resolve({ status, headers, text: () => Promise.resolve(JSON.stringify(body)) });
  };
  return { model: new SettingsModel(new KaguraClient(send)), asked };
}

test('what was typed alone is sent, with the version that was shown; what was emptied is taken out', async () => {
  const saved = { ...TOLD, version: 'v2', values: { recall: 7, box: 'auto', net: ['ask'] } };
  const { model, asked } = served([
    [200, { ...TOLD, values: { ...TOLD.values, box: 'docker' } }],
    [200, saved]
  ]);
  await model.load();
  assert.deepEqual(model.changes, {});
  model.type({ recall: 7, net: ['ask'] });
  await model.save();
  assert.deepEqual(JSON.parse(asked[1]?.body ?? ''), { version: 'v1', values: { recall: 7, box: null } });
  assert.ok(model.isSaved);
  assert.deepEqual(model.typed, saved.values);
});

test('what is wrong is told and stays typed, and so it does where the file was changed meanwhile', async () => {
  const typed = { ...TOLD.values, recall: 900 };
  const { model } = served([
    [200, TOLD],
    [200, { ...TOLD, problems: { recall: 'it is too much' } }],
    [409, { code: 'ERR_SETTINGS_CHANGED', message: 'The file was changed meanwhile.' }]
  ]);
  await model.load();
  model.type(typed);
  await model.save();
  assert.deepEqual(model.wrong, { recall: 'it is too much' });
  assert.deepEqual([model.isSaved, model.typed], [false, typed]);
  await model.save();
  assert.equal(model.problem?.code, 'ERR_SETTINGS_CHANGED');
  assert.deepEqual(model.changes, { recall: 900 });
});
