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

/** Characters of an output that a kernel is told; `domain.notebook.LONGEST`. */
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

/** How long a page waits that is not the one whose button was pressed: that one is to be heard first. */
const OTHERS_WAIT_MS = 500;

export const notebookPlugin: JupyterFrontEndPlugin<void> = {
  id: 'kagura-kernel:notebook',
  description:
    'Tells a kernel what stands in the notebook on screen, and changes its cells when a person says so.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    const open = new Set<NotebookPanel>();
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel: NotebookPanel) => {
        const { sessionContext } = panel;
        const register = () => {
          const kernel = sessionContext.session?.kernel;
          // Not waited for: until this returns, no other message of the kernel is heard.
          kernel?.registerCommTarget(
            TARGET,
            (comm, message) => void answer(panel, open, kernel, comm, message)
          );
        };
        open.add(panel);
        sessionContext.kernelChanged.connect(register);
        register();
        return new DisposableDelegate(() => {
          open.delete(panel);
          sessionContext.kernelChanged.disconnect(register);
        });
      }
    });
  }
};

async function answer(
  panel: NotebookPanel,
  open: ReadonlySet<NotebookPanel>,
  kernel: Kernel.IKernelConnection,
  comm: Kernel.IComm,
  message: KernelMessage.ICommOpenMsg
): Promise<void> {
  const asked = message.content.data as JSONObject;
  const { clientId } = kernel;
  let closed = false;
  comm.onClose = () => {
    closed = true;
  };
  const writes = text(asked['ask']) === 'write';
  const shown = writes ? panelOf(panel, open, asked) : undefined;
  if (shown) {
    comm.onMsg = ({ content }) => {
      const told = content.data as JSONObject;
      if (text(told['to']) === clientId) {
        comm.send(written(shown, told) as JSONValue);
      }
    };
  }
  const seen = writes ? null : read(panel, text(asked['cell']));
  const said = shown ? { shows: clientId } : seen;
  if (!said) {
    return;
  }
  // The cell that asks has the kernel's first shell, so the answer has to come by another one.
  if (kernel.supportsSubshells) {
    await (comm as IOnSubshell).subshellStarted;
  }
  if (text(asked['client']) !== clientId) {
    await new Promise(resolve => setTimeout(resolve, OTHERS_WAIT_MS));
  }
  if (!closed) {
    comm.send(said as JSONValue);
  }
}

/** The panel that shows the notebook whose cells are to be changed; its kernel may be another one. */
function panelOf(
  own: NotebookPanel,
  open: ReadonlySet<NotebookPanel>,
  asked: JSONObject
): NotebookPanel | undefined {
  const [notebook, ofKernel] = [text(asked['notebook']), text(asked['own'])];
  const place = `/${placeOf(own)}`;
  if (!ofKernel.endsWith(place)) {
    // A kernel knows its notebook by the name that this had when it was started; the cell that asks is still in it.
    const asks = own.content.model?.sharedModel.cells.some(one => one.getId() === text(asked['cell']));
    return asks && notebook === ofKernel ? own : undefined;
  }
  // Where the server's files begin.
  const root = ofKernel.slice(0, -place.length);
  return [own, ...open].find(panel => `${root}/${placeOf(panel)}` === notebook);
}

/** A notebook's path without the name of what keeps its files. */
function placeOf(panel: NotebookPanel): string {
  return panel.context.path.replace(/^[^/]*:/, '');
}

function read(panel: NotebookPanel, cell: string): PartialJSONObject | null {
  const cells = cellsAround(panel, cell);
  return cells && { name: panel.context.path, cells };
}

/** Changes cells, all in one step for undoing; answers which were not changed, each with the reason. */
function written(panel: NotebookPanel, told: JSONObject): PartialJSONObject {
  const refused: Record<string, string> = {};
  const notebook = panel.content.model?.sharedModel;
  notebook?.transact(() => {
    for (const edit of (told['edits'] ?? []) as unknown as ICellEdit[]) {
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
  near: string[];
}

const TOP = '^';

/** Makes one change that is not made yet; returns why it cannot be made. */
function change(notebook: ISharedNotebook, edit: ICellEdit): string {
  const at = place(notebook, edit.cell);
  const above = [edit.above, ...edit.near].find(
    one => one === '' || one === TOP || place(notebook, one) >= 0
  );
  if (above === undefined) {
    return 'the cell above it is not in the notebook any more';
  }
  const why = whyNot(edit, at < 0 ? null : notebook.getCell(at).getSource());
  if (why) {
    return why;
  }
  if (edit.action === 'delete' && at >= 0) {
    notebook.deleteCell(at);
  } else if (edit.action === 'insert' && at < 0) {
    const { kind: cell_type, cell: id, source } = edit;
    notebook.insertCell(place(notebook, above) + 1, { cell_type, id, source });
  } else if (edit.action === 'edit') {
    bring(notebook, edit, at, above);
  }
  return '';
}

/** Why a change cannot be made of a cell that says this now; null where there is none. */
function whyNot(edit: ICellEdit, now: string | null): string {
  if (now === null) {
    return edit.action === 'edit' ? 'the cell is not in the notebook any more' : '';
  }
  const isDone = edit.action !== 'delete' && now === edit.source;
  return isDone || edit.was.includes(now) ? '' : 'the cell was changed meanwhile';
}

/** Gives a cell its source and its place, as far as it has them not yet. */
function bring(notebook: ISharedNotebook, edit: ICellEdit, at: number, above: string): void {
  if (notebook.getCell(at).getSource() !== edit.source) {
    notebook.getCell(at).setSource(edit.source);
  }
  const below = place(notebook, above);
  if (above && below + 1 !== at) {
    notebook.moveCell(at, below < at ? below + 1 : below);
  }
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
  // What is to be changed later is compared with all of it.
  const fits = whole.length <= room.words;
  const source = fits ? whole : whole.slice(0, room.words);
  room.words -= source.length;
  const cell = { id: model.id, cell_type: model.type, source, cut: !fits };
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

/**
 * The first characters of a text, or of one in pieces; nothing where there is no room for them. A kernel knows by the
 * length that a text was cut, and shows nothing of its end, where half a secret may stand.
 */
function cut(value: unknown, room: IRoom): string {
  const whole = Array.isArray(value) ? value.join('') : value;
  let text = typeof whole === 'string' ? whole : '';
  if (text.length > LONGEST) {
    // Of two units each, as the kernel counts them.
    text = [...text.slice(0, 2 * LONGEST)].slice(0, LONGEST).join('');
  }
  if (text.length > room.words) {
    return '';
  }
  room.words -= text.length;
  return text;
}
