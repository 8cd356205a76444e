import { strict as assert } from 'node:assert';
import { accessible, key, status, step, timeline } from '../harness.mjs';

await step('the printed address opens it, and the key leaves the address', async (go) => {
  const page = await go();
  assert.ok(!page.url().includes(key), page.url());
  await page.reload();
  await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
  await accessible(page, 'first page');
});

await step('without a key it says where the key is, and takes only a right one', async (go) => {
  const page = await go();
  await page.getByRole('button', { name: 'Appearance and account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByText('session-key').waitFor();
  await accessible(page, 'sign in');
  await page.getByLabel('API key').fill('wrong');
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('does not take this key').waitFor();
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
});

await step('the demo starts with one click', async (go) => {
  const page = await go();
  await page.getByRole('button', { name: 'Start the demo' }).click();
  await timeline(page).getByText('Open a step').last().waitFor();
  await status(page, 'Finished.');
  await page
    .getByRole('button', { name: /^Edit hello\.py/ })
    .last()
    .click();
  await page.getByText('print("good day from Parley').waitFor();
  await accessible(page, 'conversation');
});
