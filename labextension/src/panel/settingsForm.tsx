import type { TranslationBundle } from '@jupyterlab/translation';
import { FormComponent, ReactWidget } from '@jupyterlab/ui-components';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import { useEffect, useState, type ComponentProps } from 'react';
import type { ISettings } from '../api/schema.js';
import type { SettingsModel } from '../model/settings.js';
import { problemWords } from '../model/words.js';
import { useSignal } from './hooks.js';
import { bellIcon } from './icons.js';
import { Button } from './parts.js';

type FormProps = ComponentProps<typeof FormComponent>;
type Field = Readonly<Record<string, unknown>>;

/** The server alone judges, by the declarations that kernels read settings with. */
const VALIDATOR: FormProps['validator'] = {
  validateFormData: () => ({ errors: [], errorSchema: {} }),
  toErrorList: () => [],
  isValid: () => true,
  rawValidation: () => ({ errors: [] })
};

/** The settings that kernels read, as a form in the main area. */
export class SettingsPanel extends ReactWidget {
  constructor(
    private readonly _model: SettingsModel,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.id = 'kagura-settings';
    this.addClass('kgs-panel');
    this.title.label = _trans.__('Settings of agent runs');
    this.title.icon = bellIcon;
    this.title.closable = true;
  }

  protected override render() {
    return <SettingsForm model={this._model} trans={this._trans} />;
  }
}

interface IFormProps {
  readonly model: SettingsModel;
  readonly trans: TranslationBundle;
}

function SettingsForm({ model, trans }: IFormProps) {
  const [words, setWords] = useState('');
  useSignal(model.changed);
  useEffect(() => void model.load(), [model]);
  const { told, problem, wrong } = model;
  const known = (told?.form['properties'] ?? {}) as Readonly<Record<string, Field>>;
  const elsewhere = Object.entries(wrong).filter(([name]) => !(name in known));
  return (
    <div className="kgs kgs-settings">
      <div className="kgs-settings-head">
        {told && (
          <p className="kgs-soft">{trans.__('Kernels read them from %1 when they start.', told.path)}</p>
        )}
        <div className="kgs-settings-bar">
          <input
            type="search"
            className="kgs-settings-search"
            placeholder={trans.__('Search the settings')}
            aria-label={trans.__('Search the settings')}
            value={words}
            onChange={event => setWords(event.target.value)}
          />
          <Button look="quiet" onClick={() => void model.load()}>
            {trans.__('Load again')}
          </Button>
          <Button
            look="primary"
            onClick={() => void model.save()}
            disabled={Object.keys(model.changes).length === 0}
          >
            {trans.__('Save')}
          </Button>
        </div>
        <div role="status">
          {problem && <p className="kgs-problem">{problemWords(trans, problem)}</p>}
          {elsewhere.map(([name, why]) => (
            <p key={name} className="kgs-problem">
              {[name, why].filter(Boolean).join(': ')}
            </p>
          ))}
          {model.isSaved && <p>{trans.__('Saved. A kernel that runs keeps those it started with.')}</p>}
        </div>
      </div>
      {told && (
        <FormComponent
          tagName="div"
          validator={VALIDATOR}
          schema={{ type: 'object', properties: shown(known, told, words.toLowerCase(), trans) }}
          uiSchema={Object.fromEntries(Object.keys(told.locked).map(name => [name, { 'ui:disabled': true }]))}
          formData={model.typed as ReadonlyJSONObject}
          extraErrors={
            Object.fromEntries(
              Object.entries(wrong).map(([name, why]) => [name, { __errors: [why] }])
            ) as NonNullable<FormProps['extraErrors']>
          }
          onChange={({ formData }) => model.type(formData ?? {})}
          showModifiedFromDefault={false}
          showErrorList={false}
        />
      )}
    </div>
  );
}

/** The settings that have these words, each with its meaning, its default, its key and where its value comes from. */
function shown(
  known: Readonly<Record<string, Field>>,
  told: ISettings,
  words: string,
  trans: TranslationBundle
): Record<string, object> {
  const fields = Object.entries(known).map(([name, { default: otherwise, title, description, ...field }]) => {
    const normally =
      otherwise === undefined || ['""', '{}', '[]'].includes(JSON.stringify(otherwise))
        ? ''
        : trans.__('Default: %1.', JSON.stringify(otherwise));
    const why = told.locked[name];
    const from = why
      ? trans.__('Not changed here: %1', why)
      : told.sources[name] === 'file'
        ? trans.__('From the file.')
        : told.sources[name] === 'shared'
          ? trans.__('From the shared settings of this machine.')
          : '';
    return [
      name,
      {
        ...field,
        title: String(title),
        description: [description, normally, from, trans.__('Key: %1', name)].filter(Boolean).join(' ')
      }
    ] as const;
  });
  return Object.fromEntries(
    fields.filter(([, { title, description }]) => `${title} ${description}`.toLowerCase().includes(words))
  );
}
