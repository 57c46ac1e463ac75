/**
 * Two names of a notebook: the server's, relative to its root (`sales/analysis.ipynb`), and the journal's, which is what
 * Jupyter tells a kernel: a path on the server's machine.
 */
export class Places {
  /** @param rootUri The server's root as it tells pages, `file:///home/ada`; empty when it does not. */
  constructor(rootUri: string) {
    try {
      this._root = decodeURIComponent(new URL(rootUri).pathname).replace(/\/+$/, '');
    } catch {
      this._root = '';
    }
  }

  /** The server's name; as it is where it lies outside of the root or is a server's name already. */
  ofServer(notebook: string): string {
    const inside = this._root + '/';
    return inside !== '/' && notebook.startsWith(inside) ? notebook.slice(inside.length) : notebook;
  }

  /** The journal's name of a notebook that the server has. */
  ofJournal(path: string): string {
    return path && this._root && !path.startsWith('/') ? `${this._root}/${path}` : path;
  }

  private readonly _root: string;
}
