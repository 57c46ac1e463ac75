// Says how large the sidebar's bundle is, and fails when it is larger than it may be: npm run size
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const LIMIT_KB = 200;
const folder = join('dist', 'static');
const files = readdirSync(folder).filter(name => name.endsWith('.js'));
const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
const kilobytes = Math.ceil(bytes / 1000);
console.log(
  `The sidebar's bundle takes ${kilobytes} kB in ${files.length} files; ${LIMIT_KB} kB are allowed.`
);
process.exitCode = kilobytes > LIMIT_KB ? 1 : 0;
