// A session with the web UI in a browser, against the real server: see
// test/webui/webui_test.go for what it prints.
import { end } from './harness.mjs';

// One after the other: static imports of modules that wait would run at the same time.
for (const part of [
  'start',
  'conversation',
  'runs',
  'extensions',
  'list',
  'settings',
  'git',
  'files',
  'terminal',
  'details',
  'review',
  'frame',
  'keyboard',
  'nginx',
  'endurance',
])
  await import(`./steps/${part}.mjs`);
await end();
