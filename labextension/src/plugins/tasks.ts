import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';

/** Markdown, and what a `kagura` kernel calls its language. */
const PROSE = 'text/x-ipythongfm';

const PYTHON = 'text/x-ipython';

/** How a cell begins that is an agent's task in a kernel of another language. */
const TASK = /^\s*%%kagura\b/;

/** How one begins that is code in a `kagura` kernel. */
const CODE = /^\s*%%(?!kagura\b)/;

export const tasksPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:tasks',
  description: "Writes an agent's task as prose: its lines are wrapped, and no word of it is a keyword.",
  autoStart: true,
  requires: [IEditorLanguageRegistry],
  activate: (app: JupyterFrontEnd, languages: IEditorLanguageRegistry) => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: ({ content }: NotebookPanel) => {
        const followed = new WeakSet<Cell>();
        const follow = () => {
          for (const cell of content.widgets) {
            if (cell.model.type === 'code' && !followed.has(cell)) {
              followed.add(cell);
              followCell(content, cell, languages);
            }
          }
        };
        content.modelContentChanged.connect(follow);
        follow();
      }
    });
  }
};

function followCell(notebook: Notebook, cell: Cell, languages: IEditorLanguageRegistry): void {
  const { model } = cell;
  let wasTask = false;
  const look = async () => {
    // An editor takes the language that was loaded last, and not the one that it was told last.
    await Promise.all([notebook.codeMimetype, PYTHON, PROSE].map(type => languages.getLanguage(type)));
    if (cell.isDisposed) {
      return;
    }
    const source = model.sharedModel.getSource();
    const isKernels = notebook.codeMimetype === PROSE;
    const isTask = isKernels ? !CODE.test(source) : TASK.test(source);
    const mimeType = isTask ? PROSE : isKernels ? PYTHON : notebook.codeMimetype;
    // The notebook sets it too, whenever it hears what the kernel speaks.
    if ((isTask || wasTask || isKernels) && model.mimeType !== mimeType) {
      model.mimeType = mimeType;
    }
    if (isTask !== wasTask) {
      wasTask = isTask;
      const { code, markdown } = notebook.editorConfig;
      cell.updateEditorConfig({ ...code, lineWrap: (isTask ? markdown : code)['lineWrap'] });
    }
  };
  model.contentChanged.connect(() => void look());
  model.mimeTypeChanged.connect(() => void look());
  void look();
}
