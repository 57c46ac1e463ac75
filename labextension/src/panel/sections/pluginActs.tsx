import { useState, type FormEvent } from 'react';
import { settingsHint } from '../../model/pluginWords.js';
import { visible } from '../../model/visible.js';
import type { IPlugin } from '../../api/schema.js';
import type { PluginDeed } from '../../tokens.js';
import { usePanel } from '../context.js';
import { Button } from '../parts.js';

export interface IPluginActsProps {
  readonly plugin: IPlugin;
  readonly tabIndex: number;
}

/** What the session that is looked at can be told about a plugin; power is given only where its audit is in view. */
export function PluginActs({ plugin, tabIndex }: IPluginActsProps) {
  const { kagura, trans } = usePanel();
  const model = kagura.plugins;
  const open = model.isOpen(plugin);
  const enabled = plugin.state === 'enabled';
  const may = useMay(plugin);
  if (!model.session?.live || !(open || enabled)) {
    return null;
  }
  const disabled = model.busy(plugin);
  const name = visible(plugin.name);
  const act = (deed: PluginDeed, word: string, look: 'primary' | 'quiet' | 'plain' = 'plain') => (
    <Button
      look={look}
      disabled={disabled}
      name={`${word}: ${name}`}
      tabIndex={tabIndex}
      onClick={() => void model.tell(plugin, deed)}
    >
      {word}
    </Button>
  );
  return (
    <>
      {may && !enabled && <Enable plugin={plugin} disabled={disabled} tabIndex={tabIndex} />}
      <div className="kgs-answers">
        {enabled && act('disable', trans.__('Disable'))}
        {may && !plugin.approved && act('approve', trans.__('Approve'))}
        {open && plugin.approved && act('unapprove', trans.__('Unapprove'))}
        {open &&
          !plugin.problem &&
          act(
            'audit',
            plugin.audited_at === null ? trans.__('Audit') : trans.__('Audit again'),
            plugin.audited_at === null ? 'primary' : 'quiet'
          )}
      </div>
    </>
  );
}

/** Whether it can be enabled and approved: exactly these files were audited, and that audit is in view. */
function useMay(plugin: IPlugin): boolean {
  const { kagura } = usePanel();
  const shown = kagura.plugins.isOpen(plugin) ? kagura.plugins.audit(plugin) : null;
  const audit = shown && 'audit' in shown ? shown.audit : null;
  return audit !== null && !audit.dangerous && !plugin.dangerous && !plugin.quarantine && !plugin.problem;
}

interface IEnableProps extends IPluginActsProps {
  readonly disabled: boolean;
}

function Enable({ plugin, disabled, tabIndex }: IEnableProps) {
  const { kagura, trans } = usePanel();
  const [settings, setSettings] = useState('');
  const send = (event: FormEvent) => {
    event.preventDefault();
    void kagura.plugins.tell(plugin, 'enable', settings);
  };
  const name = visible(plugin.name);
  return (
    <form className="kgs-form" onSubmit={send}>
      <input
        className="kgs-input"
        type="text"
        spellCheck={false}
        aria-label={trans.__('Settings of %1, each field=value', name)}
        title={trans.__('Settings, each field=value; what is left out has its default')}
        placeholder={settingsHint(plugin)}
        value={settings}
        disabled={disabled}
        tabIndex={tabIndex}
        onChange={event => setSettings(event.target.value)}
      />
      <button
        type="submit"
        className="kgs-button kgs-primary"
        aria-label={trans.__('Enable: %1', name)}
        disabled={disabled}
        tabIndex={tabIndex}
      >
        {trans.__('Enable')}
      </button>
    </form>
  );
}
