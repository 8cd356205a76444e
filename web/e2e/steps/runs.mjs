import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { accessible, api, begin, message, status, step, timeline, url } from '../harness.mjs';

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const decoded = (image) => image.evaluate((img) => img.decode().then(() => img.naturalWidth));

await step('an image is pasted, shown, sent, and in the timeline', async (go) => {
  const page = await go({ permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(`${url}/#/new`);
  await page.evaluate(async (data) => {
    const blob = new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], { type: 'image/png' });
    await navigator.clipboard.write([new ClipboardItem({ 'image/png': blob })]);
  }, png);
  const box = page.getByLabel('First message');
  await box.fill('finish: I saw it');
  for (let i = 0; i < 2; i++) await box.press('Control+V');
  const attached = page.locator('main').getByRole('img');
  await attached.nth(1).waitFor();
  assert.equal(await decoded(attached.first()), 1);
  await accessible(page, 'an image that was pasted');
  await page
    .getByRole('button', { name: /^Remove .*\.png$/ })
    .first()
    .click();
  await attached.nth(1).waitFor({ state: 'detached' });
  await box.press('Enter');
  await timeline(page).getByText('I saw it', { exact: true }).waitFor();
  const shown = timeline(page).locator('img');
  assert.equal(await shown.count(), 1);
  assert.ok((await decoded(shown)) >= 1);
  await page.reload();
  await shown.waitFor(); // it is in the log
});

await step('a run is paused after its step, and resumed; a message steers it', async (go) => {
  const page = await go();
  await begin(page, 'slow 4\nrun: echo after-$((1+1))\nfinish: not steered');
  await status(page, 'Command is running');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  await timeline(page)
    .getByRole('button', { name: /^Command for i in/ })
    .click();
  await timeline(page).getByText('tick 4 of 4').waitFor(); // the step went to its end
  assert.equal(await timeline(page).getByText('not steered', { exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Resume' }).click();
  await timeline(page).getByText('not steered', { exact: true }).waitFor();

  await message(page, 'slow 4\nfinish: not steered, either');
  await status(page, 'Command is running');
  await message(page, 'finish: steered');
  await timeline(page).getByText('steered', { exact: true }).waitFor();
  await status(page, 'Finished.');
  assert.equal(await timeline(page).getByText('not steered, either', { exact: true }).count(), 0);
});

await step('errors are counted, and gone to from the last to the first', async (go) => {
  const page = await go();
  const filler = (from) => Array.from({ length: 9 }, (_, n) => `run: echo filler-${from + n}`);
  await begin(page, ['run: echo lost; exit 7', ...filler(0), 'fail', ...filler(10), 'finish: at the end'].join('\n'));
  await status(page, 'Finished.');
  const jump = page.getByRole('button', { name: '2 errors' });
  const visible = (text) =>
    page.waitForFunction((wanted) => {
      const region = document.querySelector('section[aria-label="Timeline"]');
      const frame = region.getBoundingClientRect();
      return [...region.querySelectorAll('button')].some((each) => {
        const at = each.getBoundingClientRect();
        return each.textContent.includes(wanted) && at.top >= frame.top && at.bottom <= frame.bottom;
      });
    }, text);
  await jump.click();
  await visible('on purpose');
  await jump.click();
  await visible('exit 7');
  await jump.click(); // around
  await visible('on purpose');
});

await step('what the browser of the agent sees is shown', async (go) => {
  const page = await go();
  const look = [
    `run: echo "<title>t</title><h1>seen-$((1+1))</h1>" > p.html`,
    'tool: browser_navigate {"url": "file:///workspace/project/p.html"}',
    'tool: browser_get_state {"include_screenshot": true}',
    'finish: looked',
  ];
  await begin(page, look.join('\n'));
  await timeline(page).getByText('looked', { exact: true }).waitFor();
  await timeline(page)
    .getByRole('button', { name: /^Browser/ })
    .last()
    .click();
  const shot = timeline(page).locator('img');
  await shot.waitFor();
  assert.ok((await decoded(shot)) > 300);
  await accessible(page, 'a screenshot');
});

await step('a conversation is downloaded as zip', async (go) => {
  const page = await go();
  const id = await begin(page, 'run: echo kept-$((1+1))\nfinish: to be kept');
  await status(page, 'Finished.');
  await api('PATCH', `/api/v1/app-conversations/${id}`, { title: 'Kept: "all" of it' });
  await page.getByRole('heading', { name: 'Kept: "all" of it' }).waitFor();
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('menuitem', { name: 'Download', exact: false }).first().click(),
  ]);
  assert.equal(saved.suggestedFilename(), 'Kept-all-of-it.zip');
  const zip = readFileSync(await saved.path()).toString('latin1');
  assert.ok(zip.startsWith('PK') && zip.includes('meta.json') && zip.includes('event_000001_'));
});
