import type { ReactNode } from 'react';
import { permissionWords } from '../../model/pluginWords.js';
import { visible } from '../../model/visible.js';
import type { IAuditFinding, IPlugin, IPluginAudit } from '../../api/schema.js';
import { usePanel } from '../context.js';
import { Exactly, Problem } from '../parts.js';

const SEVERITY_TONES: Readonly<Record<string, string>> = { danger: 'bad', warning: 'warn', info: 'busy' };

/** What is known of a plugin: what it asks for, what its jail opens, and what its audit says. */
export function PluginDetails({ plugin }: { readonly plugin: IPlugin }) {
  const { trans } = usePanel();
  const nothing = trans.__('nothing');
  const asks = permissionWords(trans, plugin.permissions);
  const opens = plugin.opens && plugin.state === 'enabled' ? permissionWords(trans, plugin.opens) : null;
  const settings = Object.entries(plugin.config);
  return (
    <>
      {plugin.problem && <p className="kgs-problem">{visible(plugin.problem)}</p>}
      {plugin.quarantine && (
        <p className="kgs-problem">
          {trans.__('It is put off: %1. Having it audited anew lets it out.', visible(plugin.quarantine))}
        </p>
      )}
      {plugin.description && <p>{visible(plugin.description)}</p>}
      <dl className="kgs-pairs">
        {plugin.modules.length > 0 && (
          <Pair name={trans.__('Modules')}>
            <code>{plugin.modules.map(visible).join(', ')}</code>
          </Pair>
        )}
        {!plugin.problem && <Lines name={trans.__('Asks for')} lines={asks} nothing={nothing} />}
        {opens && <Lines name={trans.__('Its jail opens')} lines={opens} nothing={nothing} />}
        {settings.length > 0 && (
          <Lines
            name={trans.__('Settings')}
            lines={settings.map(([field, value]) => `${visible(field)}=${visible(value)}`)}
          />
        )}
        {plugin.signed_by && <Pair name={trans.__('Signed by')}>{visible(plugin.signed_by)}</Pair>}
        {plugin.why && plugin.state !== 'quarantined' && (
          <Pair name={trans.__('Why it stands so')}>{visible(plugin.why)}</Pair>
        )}
      </dl>
      <Audited plugin={plugin} />
    </>
  );
}

function Pair({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

interface ILinesProps {
  readonly name: string;
  readonly lines: readonly string[];
  readonly nothing?: string;
}

function Lines({ name, lines, nothing = '' }: ILinesProps) {
  return (
    <Pair name={name}>
      {lines.length === 0
        ? nothing
        : lines.map(line => (
            <div key={line}>
              <code>{line}</code>
            </div>
          ))}
    </Pair>
  );
}

function Audited({ plugin }: { readonly plugin: IPlugin }) {
  const { kagura, trans } = usePanel();
  if (plugin.problem) {
    return null;
  }
  if (plugin.audited_at === null) {
    return (
      <p className="kgs-soft">
        {trans.__('Nobody has audited these files yet. An audit comes before enabling.')}
      </p>
    );
  }
  const shown = kagura.plugins.audit(plugin);
  if (shown === null) {
    return <p className="kgs-soft">{trans.__('Fetching its audit …')}</p>;
  }
  return 'problem' in shown ? <Problem problem={shown.problem} /> : <Report audit={shown.audit} />;
}

/** An audit's report. Summary and findings are an auditor's words, who has read what the plugin's author wrote. */
function Report({ audit }: { readonly audit: IPluginAudit }) {
  const { trans } = usePanel();
  return (
    <div className="kgs-report" role="group" aria-label={trans.__('Audit')}>
      <p>
        <strong>{visible(audit.risk_words)}</strong>
        {': '}
        {visible(audit.counts)}. {visible(audit.verdict_words)}.
      </p>
      {audit.dangerous && (
        <p className="kgs-problem">
          {trans.__('It has a danger in it, so nobody can enable it, whatever they decide.')}
        </p>
      )}
      {audit.summary && (
        <p>
          <q>{visible(audit.summary)}</q>
        </p>
      )}
      {audit.remark && <p className="kgs-soft">{visible(audit.remark)}</p>}
      {audit.findings.length > 0 && (
        <ul className="kgs-findings" aria-label={trans.__('Findings')}>
          {audit.findings.map((finding, index) => (
            <Finding key={index} finding={finding} />
          ))}
        </ul>
      )}
      {audit.injections.length > 0 && (
        <details className="kgs-details" open>
          <summary>{trans.__('Text that talks to its reader')}</summary>
          {audit.injections.map(({ text, why }, index) => (
            <div key={index}>
              <Exactly text={text} />
              {why && <p className="kgs-soft">{visible(why)}</p>}
            </div>
          ))}
        </details>
      )}
      <details className="kgs-details">
        <summary>{trans.__('About the audit')}</summary>
        <dl className="kgs-pairs">
          {audit.facts.map(({ name, text, good }) => (
            <Pair key={name} name={visible(name)}>
              <span className={good === false ? 'kgs-tone-warn' : ''}>{visible(text)}</span>
            </Pair>
          ))}
        </dl>
      </details>
    </div>
  );
}

function Finding({ finding }: { readonly finding: IAuditFinding }) {
  return (
    <li>
      <p>
        <strong className={`kgs-tone-${SEVERITY_TONES[finding.severity] ?? 'bad'}`}>
          {visible(finding.word)}
        </strong>{' '}
        {visible(finding.message)}{' '}
        {finding.place && <code className="kgs-soft">{visible(finding.place)}</code>}
      </p>
      {finding.source && <Exactly text={finding.source} />}
    </li>
  );
}
