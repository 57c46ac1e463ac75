import type { INotebookTracker } from '@jupyterlab/notebook';
import { fields, text } from '../api/decode.js';
import type { IModels, IOfferedModels } from '../panel/modelPicker.js';

const WHERE = "__import__('kagura_kernel.jupyter.models', fromlist=['offering'])";

/** The models of the notebook in front, asked of its kernel, which alone knows what was chosen in it. */
export function modelsOf(tracker: INotebookTracker | null): IModels {
  return {
    offered: () => ask(tracker, ''),
    use: name => ask(tracker, name)
  };
}

async function ask(tracker: INotebookTracker | null, name: string): Promise<IOfferedModels | null> {
  const kernel = tracker?.currentWidget?.sessionContext.session?.kernel;
  if (!kernel) {
    return null;
  }
  // Text of JSON, in plain ASCII, is text of Python too.
  const wanted = JSON.stringify(name).replace(
    /[^ -~]/g,
    sign => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`
  );
  const { content } = await kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { offered: `${WHERE}.for_sidebar(${wanted})` }
  }).done;
  const answer = fields(fields(fields(content)['user_expressions'])['offered']);
  try {
    const found = fields(JSON.parse(text(fields(answer['data'])['text/plain'])));
    const models = Array.isArray(found['models']) ? (found['models'] as unknown[]) : [];
    return {
      models: models.filter(Array.isArray).map(one => [text(one[0]), text(one[1])] as const),
      current: text(found['current']),
      problem: text(found['problem'])
    };
  } catch {
    return { models: [], current: '', problem: '' };
  }
}
