import { begin, status, step } from '../harness.mjs';

await step('list: search, rename, delete with a way back', async (go) => {
  const page = await go();
  const id = await begin(page, 'run: echo zanzibar-$((1+1))\nfinish: found it');
  await status(page, 'Finished.');
  await page.keyboard.press('Tab');
  await page.getByRole('searchbox', { name: 'Search' }).fill('zanzibar');
  await page.locator('mark', { hasText: 'zanzibar' }).first().click();
  await page.waitForURL(new RegExp(`#/c/${id}.event=`));
  await page.getByRole('searchbox', { name: 'Search' }).fill('');
  await page.getByRole('button', { name: /^Actions for run: echo zanzibar/ }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByLabel('Title').fill('A new name');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('link', { name: /A new name/ }).waitFor();
  await page.getByRole('button', { name: 'Actions for A new name' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('link', { name: /A new name/ }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('link', { name: /A new name/ }).waitFor();
  await page.getByRole('button', { name: 'Actions for A new name' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Undo' }).waitFor();
  await page.reload(); // leaving carries it out
  await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
  await page.getByRole('link', { name: /A new name/ }).waitFor({ state: 'detached' });
});
