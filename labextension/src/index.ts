import { commandsPlugin } from './plugins/commands.js';
import { liveCardsPlugin } from './plugins/liveCards.js';
import { notebookPlugin } from './plugins/notebook.js';
import { notificationsPlugin } from './plugins/notifications.js';
import { panelPlugin, sectionsPlugin } from './plugins/panel.js';
import { servicePlugin } from './plugins/service.js';
import { statusBarPlugin } from './plugins/statusBar.js';
import { tasksPlugin } from './plugins/tasks.js';

export type * from './api/schema.js';
export * from './tokens.js';

export default [
  servicePlugin,
  sectionsPlugin,
  panelPlugin,
  commandsPlugin,
  statusBarPlugin,
  notificationsPlugin,
  liveCardsPlugin,
  notebookPlugin,
  tasksPlugin
];
