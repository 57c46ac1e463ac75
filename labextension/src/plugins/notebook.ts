import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject, JSONValue, PartialJSONObject } from '@lumino/coreutils';
import { DisposableDelegate } from '@lumino/disposable';
import { text } from '../api/decode.js';

/** The comm under which a kernel asks about the notebook around a cell. */
const TARGET = 'kagura.notebook';

/** Characters of a source or an output that a kernel is told. */
const LONGEST = 50_000;

/** Characters of all of them. */
const WORDS = 2_000_000;

/** The first line of a cell that is private where nobody sees its tags. */
const SAYS_PRIVATE = /^\s*#\s*private\b/i;

/** A notebook as all who look at it share it. */
type ISharedNotebook = NonNullable<NotebookPanel['content']['model']>['sharedModel'];

/**
 * Characters of all images in base64, those nearest above the cell that asks first; what is below has none. A server
 * closes a connection over which more than 10 MiB come at once.
 */
const IMAGES = 4_000_000;

const RASTER = ['image/gif', 'image/jpeg', 'image/png', 'image/webp'];

/** What JupyterLab's comms have beside what their interface tells. */
interface IOnSubshell extends Kernel.IComm {
  readonly subshellStarted?: Promise<unknown>;
}

export const notebookPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:notebook',
  description:
    'Tells a kernel what stands in the notebook on screen, and changes its cells when a person says so.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => {
        const { sessionContext } = panel;
        const register = () => {
          const kernel = sessionContext.session?.kernel;
          // Not waited for: until this returns, no other message of the kernel is heard.
          kernel?.registerCommTarget(TARGET, (comm, message) => void answer(panel, kernel, comm, message));
        };
        sessionContext.kernelChanged.connect(register);
        register();
        return new DisposableDelegate(() => sessionContext.kernelChanged.disconnect(register));
      }
    });
  }
};

async function answer(
  panel: NotebookPanel,
  kernel: Kernel.IKernelConnection,
  comm: Kernel.IComm,
  message: KernelMessage.ICommOpenMsg
): Promise<void> {
  const asked = message.content.data as JSONObject;
  const said = text(asked['ask']) === 'write' ? written(panel, asked) : read(panel, text(asked['cell']));
  if (!said) {
    return;
  }
  // The cell that asks has the kernel's first shell, so the answer has to come by another one.
  if (kernel.supportsSubshells) {
    await (comm as IOnSubshell).subshellStarted;
  }
  comm.send(said as JSONValue);
}

function read(panel: NotebookPanel, cell: string): PartialJSONObject | null {
  const cells = cellsAround(panel, cell);
  return cells && { name: panel.context.path, cells };
}

/** Changes cells, all in one step for undoing; answers which were not changed, each with the reason. */
function written(panel: NotebookPanel, asked: JSONObject): PartialJSONObject | null {
  const notebook = panel.content.model?.sharedModel;
  const place = panel.context.path.replace(/^[^/]*:/, '');
  if (!notebook || !`/${text(asked['notebook'])}`.endsWith(`/${place}`)) {
    return null;
  }
  const refused: Record<string, string> = {};
  notebook.transact(() => {
    for (const edit of (asked['edits'] ?? []) as unknown as ICellEdit[]) {
      const why = change(notebook, edit);
      if (why) {
        refused[edit.cell] = why;
      }
    }
  });
  return { refused };
}

/** A change of one cell, as `domain.notebook.CellEdit` has it. */
interface ICellEdit {
  action: 'insert' | 'edit' | 'delete';
  cell: string;
  kind: 'code' | 'markdown' | 'raw';
  source: string;
  was: string[];
  above: string;
}

const TOP = '^';

/** Makes one change; returns why it cannot be made. */
function change(notebook: ISharedNotebook, edit: ICellEdit): string {
  const at = place(notebook, edit.cell);
  if (edit.above && edit.above !== TOP && place(notebook, edit.above) < 0) {
    return 'the cell above it is not in the notebook any more';
  }
  if (edit.action === 'insert') {
    if (at >= 0) {
      return 'the cell was changed meanwhile';
    }
    const { kind: cell_type, cell: id, source } = edit;
    notebook.insertCell(place(notebook, edit.above) + 1, { cell_type, id, source });
    return '';
  }
  if (at < 0) {
    return 'the cell is not in the notebook any more';
  }
  const cell = notebook.getCell(at);
  if (!edit.was.includes(cell.getSource())) {
    return 'the cell was changed meanwhile';
  }
  if (edit.action === 'delete') {
    notebook.deleteCell(at);
    return '';
  }
  if (cell.getSource() !== edit.source) {
    cell.setSource(edit.source);
  }
  if (edit.above) {
    const above = place(notebook, edit.above);
    notebook.moveCell(at, above < at ? above + 1 : above);
  }
  return '';
}

/** Where a cell stands; -1 for one that is not there, and for the top. */
function place(notebook: ISharedNotebook, cell: string): number {
  return notebook.cells.findIndex(one => one.getId() === cell);
}

/** All cells of the notebook, if this one is among them; private ones by their id and tags alone. */
function cellsAround(panel: NotebookPanel, cell: string): PartialJSONObject[] | null {
  const cells = [...(panel.content.model?.cells ?? [])];
  const asking = cells.findIndex(model => model.id === cell);
  if (asking < 0) {
    return null;
  }
  const room = { images: IMAGES, words: WORDS };
  const above = cells.slice(0, asking).reverse();
  const nearby = above.map(model => told(model, room)).reverse();
  const below = { images: 0, words: room.words };
  return [...nearby, ...cells.slice(asking).map(model => told(model, below))];
}

/** What a kernel may still be told: a message that is too large is never sent. */
interface IRoom {
  images: number;
  words: number;
}

function told(model: ICellModel, room: IRoom): PartialJSONObject {
  const tags: unknown = model.getMetadata('tags');
  const whole = model.sharedModel.getSource();
  if ((Array.isArray(tags) && tags.includes('private')) || SAYS_PRIVATE.test(whole)) {
    return { id: model.id, metadata: { tags: ['private'] } };
  }
  const source = cut(whole, room);
  const cell = { id: model.id, cell_type: model.type, source };
  if (model.type !== 'code') {
    const { attachments } = model.sharedModel.toJSON() as { attachments?: Record<string, JSONObject> };
    const pasted = Object.entries(attachments ?? {}).map(([name, data]) => [name, images(data, room)]);
    return { ...cell, attachments: Object.fromEntries(pasted) as JSONObject };
  }
  const { executionCount, outputs } = model as ICodeCellModel;
  const shown = Array.from({ length: outputs.length }, (_, at) => outputs.get(at).toJSON());
  return { ...cell, execution_count: executionCount, outputs: shown.map(one => toTell(one, room)) };
}

/** An output without anything but its text, and an image as far as there is room. */
function toTell(output: IOutput, room: IRoom): PartialJSONObject {
  const { output_type, text: printed, data, ename, evalue, traceback } = output as PartialJSONObject;
  if (output_type === 'error') {
    const frames = Array.isArray(traceback) ? traceback.map(frame => cut(frame, room)) : [];
    return { output_type, ename: cut(ename, room), evalue: cut(evalue, room), traceback: frames };
  }
  if (output_type === 'stream') {
    return { output_type, text: cut(printed, room) };
  }
  const bundle = (data ?? {}) as JSONObject;
  return { output_type, data: { 'text/plain': cut(bundle['text/plain'], room), ...images(bundle, room) } };
}

/** The images in a bundle of MIME types that there is room for. */
function images(bundle: JSONObject, room: IRoom): PartialJSONObject {
  const found: PartialJSONObject = {};
  for (const mime of RASTER) {
    const value = bundle[mime];
    const data = Array.isArray(value) ? value.join('') : value;
    if (typeof data === 'string' && data.length <= room.images) {
      found[mime] = data;
      room.images -= data.length;
    }
  }
  return found;
}

/** A text, or one in pieces, as far as there is room. */
function cut(value: unknown, room: IRoom): string {
  const whole = Array.isArray(value) ? value.join('') : value;
  const text = typeof whole === 'string' ? whole.slice(0, Math.min(LONGEST, room.words)) : '';
  room.words -= text.length;
  return text;
}
