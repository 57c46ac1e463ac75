import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Token } from '@lumino/coreutils';
import { KaguraClient, type Send } from '../api/client.js';
import { Kagura } from '../model/kagura.js';
import { Places } from '../model/places.js';

/** The state that the plugins share. */
export const IKagura = new Token<Kagura>(
  'kagura-kernel:IKagura',
  'The runs, approvals, plugins, memories, leases and costs of kagura-kernel.'
);

/** Joins the state to the server: its base URL, its token or cookie, and its event stream. */
export const servicePlugin: JupyterFrontEndPlugin<Kagura> = {
  id: 'kagura-kernel:service',
  description: 'Knows the runs, approvals, plugins, memories, leases and costs of kagura-kernel.',
  autoStart: true,
  provides: IKagura,
  activate: (app: JupyterFrontEnd): Kagura => {
    const { serverSettings, events } = app.serviceManager;
    const kagura = new Kagura({ client: new KaguraClient(sender(serverSettings)), stream: events.stream });
    // A hanging server must not keep the page from starting.
    void app.started.then(() => kagura.start());
    return kagura;
  }
};

function sender(settings: ServerConnection.ISettings): Send {
  const base = URLExt.join(settings.baseUrl, 'kagura', 'api', 'v1');
  // `makeRequest` adds the token or the XSRF header, whichever this server wants.
  return (path, request) =>
    ServerConnection.makeRequest(`${base}/${path}`, { ...request, cache: 'no-store' }, settings);
}

/** The names of notebooks on this server. */
export function places(): Places {
  return new Places(PageConfig.getOption('rootUri'));
}
