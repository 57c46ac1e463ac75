import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Token } from '@lumino/coreutils';
import type { Kagura } from '../model/kagura.js';
import { SectionList, type IMemory } from '../panel/sectionList.js';
import { approvalsSection } from '../panel/sections/approvals.js';
import { costsSection } from '../panel/sections/costs.js';
import { leasesSection } from '../panel/sections/leases.js';
import { memoriesSection } from '../panel/sections/memories.js';
import { pluginsSection } from '../panel/sections/plugins.js';
import { runsSection } from '../panel/sections/runs.js';
import { KaguraPanel } from '../panel/widget.js';
import { ISections, TRANSLATION_DOMAIN } from '../tokens.js';
import { failureOf } from './failed.js';
import { runBelow } from './below.js';
import { modelsOf } from './models.js';
import { jumpToCell } from './jump.js';
import { IKagura, places } from './service.js';
import { followSettings, SETTINGS_ID } from './settings.js';

const RANK = 120;
const MEMORY_ID = 'kagura-kernel:closed-sections';

/** The panel, for the plugins that show it. */
export const IPanel = new Token<KaguraPanel>('kagura-kernel:IPanel', 'The panel with the agent runs.');

/** The list of sections: a further one of ours is a file in `panel/sections` and a line here. */
const SECTIONS = [
  approvalsSection,
  runsSection,
  pluginsSection,
  memoriesSection,
  leasesSection,
  costsSection
];

export const sectionsPlugin: JupyterFrontEndPlugin<ISections> = {
  id: 'kagura-kernel:sections',
  description: 'The sections of the panel with the agent runs; other extensions can add theirs.',
  autoStart: true,
  requires: [IKagura],
  optional: [ITranslator, IStateDB],
  provides: ISections,
  activate: (
    _app: JupyterFrontEnd,
    kagura: Kagura,
    translator: ITranslator | null,
    state: IStateDB | null
  ) => {
    const trans = (translator ?? nullTranslator).load(TRANSLATION_DOMAIN);
    const sections = new SectionList(memory(state));
    for (const section of SECTIONS) {
      sections.add(section(kagura, trans));
    }
    return sections;
  }
};

export const panelPlugin: JupyterFrontEndPlugin<KaguraPanel> = {
  id: SETTINGS_ID,
  description: 'The panel with approvals, runs, plugins, memories, leases and costs of kagura-kernel.',
  autoStart: true,
  requires: [IKagura, ISections],
  optional: [ITranslator, ILayoutRestorer, ISettingRegistry, INotebookTracker],
  provides: IPanel,
  activate: (
    app: JupyterFrontEnd,
    kagura: Kagura,
    sections: ISections,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    tracker: INotebookTracker | null
  ): KaguraPanel => {
    const trans = (translator ?? nullTranslator).load(TRANSLATION_DOMAIN);
    const panel = new KaguraPanel({
      kagura,
      trans,
      sections: sections as SectionList,
      jump: origin => jumpToCell(app, tracker, trans, origin),
      setUp: async () =>
        (await runBelow(tracker, '%kagura setup'))
          ? ''
          : trans.__('Open a notebook first: the form appears in a cell of it.'),
      failure: failureOf(tracker),
      openSettings: () => void app.commands.execute('kagura:settings'),
      models: modelsOf(tracker)
    });
    app.shell.add(panel, 'right', { rank: RANK });
    restorer?.add(panel, panel.id);
    void followSettings(registry, (settings, before) => {
      kagura.feed.pollInterval = settings.pollSeconds * 1000;
      if (settings.position !== (before?.position ?? 'right')) {
        app.shell.add(panel, settings.position, { rank: RANK });
      }
    });
    followNotebook(tracker, (path, kernel) => kagura.look(places().ofJournal(path), kernel));
    return panel;
  }
};

/** Says what the notebook in front is called and which kernel it has, now and whenever either is another one. */
function followNotebook(
  tracker: INotebookTracker | null,
  look: (path: string, kernel: string) => void
): void {
  let context: ISessionContext | null = null;
  const tell = () => {
    const { currentWidget } = tracker ?? {};
    look(currentWidget?.context.path ?? '', context?.session?.kernel?.id ?? '');
  };
  const follow = () => {
    context?.kernelChanged.disconnect(tell);
    context?.propertyChanged.disconnect(tell);
    context = tracker?.currentWidget?.sessionContext ?? null;
    context?.kernelChanged.connect(tell);
    // Its path is one of them.
    context?.propertyChanged.connect(tell);
    tell();
  };
  tracker?.currentChanged.connect(follow);
  follow();
}

/** Which sections are closed is kept with the layout; where nothing is kept, all are open. */
function memory(state: IStateDB | null): IMemory {
  return {
    load: async () => {
      const kept = await state?.fetch(MEMORY_ID).catch(() => undefined);
      return Array.isArray(kept) ? kept.filter(id => typeof id === 'string') : [];
    },
    save: closed => void state?.save(MEMORY_ID, [...closed])
  };
}
