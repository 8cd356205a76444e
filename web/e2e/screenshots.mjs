// Makes the pictures of docs/webui, from a server that runs with --demo on an empty data
// directory:
//
//   WEBUI_URL=http://127.0.0.1:3000 WEBUI_KEY=... WEBUI_BROWSER=/usr/bin/chromium node e2e/screenshots.mjs
import { fileURLToPath } from 'node:url';
import { api, begin, end, status, step, timeline, url } from './harness.mjs';

const size = { width: 1100, height: 700 };
const shot = (page, name) =>
  page.screenshot({ path: fileURLToPath(new URL(`../../docs/webui/${name}.png`, import.meta.url)) });
const settled = (page) => page.waitForTimeout(600); // colours fade in, lists are asked for

await step('pictures', async (go) => {
  const page = await go({ viewport: size });
  await settled(page);
  await shot(page, 'start');
  const name = (id, title) => api('PATCH', `/api/v1/app-conversations/${id}`, { title });
  await name(await begin(page, 'finish: Written.'), 'Write release notes');
  await status(page, 'Finished.');
  await name(await begin(page, 'run: make\nfinish: It does not.'), 'Why does the build fail on Debian?');
  await status(page, 'Finished.');
  const plan = {
    command: 'plan',
    task_list: [
      { title: 'Measure where the time goes', status: 'done', notes: '' },
      { title: 'Read the file once', status: 'in_progress', notes: '' },
      { title: 'Compare the figures', status: 'todo', notes: '' },
    ],
  };
  await name(await begin(page, `tool: task_tracker ${JSON.stringify(plan)}\nslow 600`), 'Speed up the import');
  await status(page, 'Command is running');
  await settled(page);
  await shot(page, 'running');

  await page.getByRole('link', { name: 'New conversation' }).click();
  await page.getByRole('button', { name: 'Start the demo' }).click();
  await status(page, 'Finished.');
  const steps = timeline(page).getByRole('button', { name: /hello\.py/ });
  await steps.last().click();
  await steps.nth(-2).click();
  await settled(page);
  await shot(page, 'conversation');

  await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: true } });
  await page.emulateMedia({ colorScheme: 'dark' });
  const asks = await begin(page, 'run: git push --force origin main');
  await name(asks, 'Publish the branch');
  await status(page, 'Waiting for you');
  await settled(page);
  await shot(page, 'confirmation');
  await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: false } });

  await page.goto(`${url}/#/sandboxes`);
  await page.waitForTimeout(6000); // two samples tell how busy the CPUs are
  await shot(page, 'sandboxes');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto(`${url}/#/settings/general`);
  await settled(page);
  await shot(page, 'settings');
  await page.setViewportSize({ width: 360, height: 700 });
  await page.goto(`${url}/#/c/${asks}`);
  await settled(page);
  await shot(page, 'phone');
});
await end();
