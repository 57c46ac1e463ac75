import { LabIcon } from '@jupyterlab/ui-components';

/** A suzu: the bell with a slit that is rung in a kagura dance. */
const BELL =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">' +
  '<g class="jp-icon3" fill="#616161">' +
  '<path d="M12 1.6a2.6 2.6 0 0 0-1.1 4.95v.53a8 8 0 1 0 2.2 0v-.53A2.6 2.6 0 0 0 12 1.6zm0 1.7a.9.9 0 1 1 0 1.8.9.9 0 0 1 0-1.8z' +
  'M12 8.7a6.3 6.3 0 0 1 6.24 5.4H5.76A6.3 6.3 0 0 1 12 8.7zm-6.24 7.1h4.4a2 2 0 1 0 3.68 0h4.4a6.3 6.3 0 0 1-12.48 0z"/>' +
  '</g></svg>';

export const bellIcon = new LabIcon({ name: 'kagura-kernel:bell', svgstr: BELL });
