import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { accessible, api, begin, status, step, timeline, url } from '../harness.mjs';

await step('changed files are listed, with their differences', async (go) => {
  const page = await go();
  await begin(page, 'run: git init -q . && echo more > b.txt\nfinish: changed');
  await timeline(page).getByText('changed', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Changed files' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: /added.*b\.txt/ }).click();
  await dialog.getByText('more', { exact: true }).waitFor();
  await accessible(page, 'changes');
});

/** Drops files onto something, as from a file manager. */
async function drop(page, target, files) {
  const dataTransfer = await page.evaluateHandle((all) => {
    const made = new DataTransfer();
    for (const each of all) made.items.add(new File([each.text], each.name, { type: 'text/plain' }));
    return made;
  }, files);
  await target.dispatchEvent('dragover', { dataTransfer });
  await target.dispatchEvent('drop', { dataTransfer });
}

await step('files: browse, look at, download, upload by button and by dropping', async (go) => {
  const page = await go();
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  const id = await begin(
    page,
    `run: mkdir -p src/deep && printf 'package main // <img src=http://192.0.2.1/p.png>\\r\\n' > src/deep/main.go && echo ${png} | base64 -d > picture.txt && head -c 20000000 /dev/zero > zeros && yes word | head -c 900000 > long.log\nfinish: made them`,
  );
  await timeline(page).getByText('made them', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  const panel = page.getByRole('region', { name: 'Files', exact: true });
  const entry = (name) => panel.getByRole('button', { name, exact: true });
  await entry('src').press('ArrowRight');
  await entry('deep').waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await entry('main.go').waitFor();
  await accessible(page, 'tree of files');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await panel.locator('.hljs-keyword', { hasText: 'package' }).waitFor();
  assert.ok((await panel.innerText()).includes('// <img src=http://192.0.2.1/p.png>'));
  await accessible(page, 'a file');
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    panel.getByRole('button', { name: 'Download' }).click(),
  ]);
  assert.equal(saved.suggestedFilename(), 'main.go');
  assert.match(readFileSync(await saved.path(), 'utf8'), /^package main .*\r\n$/);
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter'); // back, to the file in the tree
  await page.waitForFunction(() => document.activeElement?.getAttribute('data-entry')?.endsWith('main.go'));

  const back = () => panel.getByRole('button', { name: 'All files' }).click();
  await entry('picture.txt').click();
  const shown = panel.getByRole('img', { name: 'picture.txt' });
  await shown.waitFor();
  assert.equal(await shown.evaluate((img) => img.decode().then(() => img.naturalWidth)), 1);
  await back();
  await entry('zeros').click();
  await panel.getByText('This file is no text').waitFor();
  await back();
  await entry('long.log').click();
  await panel.getByText('Only the beginning is shown').waitFor();
  await back();

  const picker = panel.locator('input[type=file]');
  await picker.setInputFiles({ name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('first') });
  await entry('notes.md').waitFor();
  await picker.setInputFiles({ name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('second') });
  await page.getByRole('dialog').getByText('notes.md').waitFor();
  await accessible(page, 'a name that is taken');
  await page.getByRole('dialog').getByRole('button', { name: 'Keep both' }).click();
  await entry('notes-1.md').click();
  await panel.getByText('second', { exact: true }).waitFor();
  await back();
  await drop(page, entry('deep'), [{ name: 'dropped.txt', text: 'into deep' }]);
  await entry('dropped.txt').click();
  await panel.getByText('into deep', { exact: true }).waitFor();

  // Onto the message: it is stored beside what is there, and the message names it.
  const box = page.getByRole('textbox', { name: 'Message', exact: true });
  await box.fill('run: cat notes-2.md');
  await drop(page, box, [{ name: 'notes.md', text: 'third-$((1+1))' }]);
  await page.waitForFunction((el) => el.value.includes('Uploaded file: notes-2.md'), await box.elementHandle());
  await box.press('Enter');
  await timeline(page)
    .getByRole('button', { name: /^Command cat notes-2/ })
    .last()
    .click();
  await timeline(page).getByText('third-$((1+1))').waitFor();

  await panel.press('Escape');
  await panel.waitFor({ state: 'detached' });
  const { sandbox_id: sandbox } = await api('GET', `/api/v1/app-conversations/${id}`);
  await api('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await status(page, 'The sandbox is paused');
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  await panel.getByText('The sandbox does not run').waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await drop(page, panel, [{ name: 'no.txt', text: 'x' }]);
  await panel.getByRole('button', { name: 'Close' }).click();
  await drop(page, box, [{ name: 'late.txt', text: 'x' }]); // wakes it
  await page.waitForFunction((el) => el.value.includes('Uploaded file: late.txt'), await box.elementHandle());
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  await entry('late.txt').waitFor();
  assert.equal(await entry('no.txt').count(), 0);
  assert.ok((await page.evaluate('document.documentElement.scrollWidth')) <= 360);
  await accessible(page, 'files at 360 px');
});

await step('files: a new conversation begins with some', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/new`);
  const box = page.getByLabel('First message');
  await box.fill('run: cat data.csv');
  await drop(page, box, [
    { name: 'data.csv', text: 'a;b-$((1+1))' },
    { name: 'not-this.csv', text: 'x' },
  ]);
  await page.getByRole('button', { name: 'Remove not-this.csv' }).click();
  await accessible(page, 'files before a conversation');
  await box.press('Enter');
  await page.waitForURL(/#\/c\/[0-9a-f]{32}/);
  await timeline(page)
    .getByRole('button', { name: /^Command cat data/ })
    .click();
  await timeline(page).getByText('a;b-$((1+1))').waitFor();
  await timeline(page).getByText('Uploaded file: data.csv').first().waitFor();
});
