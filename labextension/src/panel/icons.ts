import { LabIcon } from '@jupyterlab/ui-components';

/** A suzu: the bell with a slit that is rung in a kagura dance. */
const BELL =
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">' +
  '<g class="jp-icon3" fill="#616161">' +
  '<path d="M12 1.6a2.6 2.6 0 0 0-1.1 4.95v.53a8 8 0 1 0 2.2 0v-.53A2.6 2.6 0 0 0 12 1.6zm0 1.7a.9.9 0 1 1 0 1.8.9.9 0 0 1 0-1.8z' +
  'M12 8.7a6.3 6.3 0 0 1 6.24 5.4H5.76A6.3 6.3 0 0 1 12 8.7zm-6.24 7.1h4.4a2 2 0 1 0 3.68 0h4.4a6.3 6.3 0 0 1-12.48 0z"/>' +
  '</g></svg>';

export const bellIcon = new LabIcon({ name: 'kagura-kernel:bell', svgstr: BELL });

const drawn = (path: string) =>
  '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">' +
  `<path class="jp-icon3" fill="#616161" d="${path}"/></svg>`;

/** A wrench. */
export const fixIcon = new LabIcon({
  name: 'kagura-kernel:fix',
  svgstr: drawn(
    'M21.7 6.6a5.6 5.6 0 0 1-7.6 6.9l-8.2 8.2a2.3 2.3 0 0 1-3.3-3.3l8.2-8.2a5.6 5.6 0 0 1 6.9-7.6l-3.3 3.3.7 2.6 2.6.7z'
  )
});

/** A question mark in a circle. */
export const explainIcon = new LabIcon({
  name: 'kagura-kernel:explain',
  svgstr: drawn(
    'M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 18a8 8 0 1 1 0-16 8 8 0 0 1 0 16zm-1-4h2v2h-2zm1-10a4 4 0 0 0-4 4h2a2 2 0 1 1 2 2h-1v3h2v-1.1A4 4 0 0 0 12 6z'
  )
});
