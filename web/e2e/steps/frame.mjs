import { strict as assert } from 'node:assert';
import { accessible, api, begin, browser, key, message, proxied, status, step, timeline, url } from '../harness.mjs';

await step('sandboxes: pause, resume by a message, delete', async (go) => {
  const page = await go();
  const id = await begin(page, 'finish: made');
  await status(page, 'Finished.');
  const { sandbox_id: sandbox } = await api('GET', `/api/v1/app-conversations/${id}`);
  await page.getByRole('link', { name: 'Sandboxes' }).click();
  const row = page.getByRole('listitem').filter({ hasText: sandbox });
  await row.getByRole('button', { name: 'Pause' }).click();
  await row.getByRole('button', { name: 'Resume' }).waitFor();
  await page.goto(`${url}/#/c/${id}`);
  await status(page, 'The sandbox is paused');
  await message(page, 'finish: awake again');
  await timeline(page).getByText('awake again', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Sandboxes' }).click();
  await row.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await row.waitFor({ state: 'detached' });
});

for (const colorScheme of ['light', 'dark']) {
  await step(`360 px, ${colorScheme}: nothing is wider than the page, and axe finds nothing serious`, async (go) => {
    const page = await go({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, colorScheme });
    await begin(page, `run: echo ${'long-'.repeat(60)}\nwrite a.txt: b\nfail\nfinish: ${'x'.repeat(300)}`);
    await status(page, 'Finished.');
    const places = [
      page.url().split('#')[1],
      '/',
      '/new',
      '/sandboxes',
      '/settings/model',
      '/settings/general',
      '/settings/git',
      '/settings/secrets',
      '/settings/keys',
      '/settings/profiles',
      '/settings/mcp',
      '/settings/webhooks',
      '/settings/more',
    ];
    for (const place of places) {
      await page.goto(`${url}/#${place}`);
      await page.waitForTimeout(500);
      assert.ok((await page.evaluate('document.documentElement.scrollWidth')) <= 360, place);
      await accessible(page, `${colorScheme} ${place}`);
    }
  });
}

await step('it works in other languages', async (go) => {
  const page = await go({ locale: 'de-DE' }).catch(() => null);
  assert.equal(page, null); // the link is called otherwise
  const context = await browser.newContext({ locale: 'de-DE' });
  const german = await context.newPage();
  await german.goto(`${url}/#key=${encodeURIComponent(key)}`);
  await german.getByRole('link', { name: 'Einstellungen' }).waitFor();
  assert.equal(await german.evaluate('document.documentElement.lang'), 'de');
  await context.close();
});

await step('behind a reverse proxy, below a path', async (go) => {
  const page = await go({}, proxied);
  await begin(page, 'run: echo proxied-$((1+1))\nfinish: through the proxy');
  await timeline(page).getByText('through the proxy', { exact: true }).waitFor();
  await message(page, 'slow 60');
  await page.getByRole('button', { name: 'Stop' }).click();
  await timeline(page).getByText('Stopped', { exact: true }).waitFor();
});
