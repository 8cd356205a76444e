// What a reverse proxy can break, behind nginx with the configuration of docs/web-ui.md.
import { strict as assert } from 'node:assert';
import { createHash, randomBytes } from 'node:crypto';
import { begin, key, message, status, step, timeline } from '../harness.mjs';

const at = process.env.WEBUI_NGINX; // '' = there is none
const trusting = { ignoreHTTPSErrors: true };

if (at) {
  await step('behind nginx, below a path: streaming, stop, sockets', async (go) => {
    const page = await go(trusting, at);
    const id = await begin(page, 'finish: ready');
    await timeline(page).getByText('ready', { exact: true }).waitFor();
    await message(page, 'slow 60');
    await status(page, 'Command is running');
    await page.getByRole('button', { name: 'Stop' }).click();
    await timeline(page).getByText('Stopped', { exact: true }).waitFor();
    await message(page, 'tokens 3000');
    await page.locator('[aria-busy]').getByText('word-30').waitFor(); // while it is written
    await page.getByText('word-300').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await timeline(page).getByText('Stopped', { exact: true }).nth(1).waitFor();
    const heard = await page.evaluate(
      ([of, secret]) =>
        new Promise((resolve, reject) => {
          const to = new URL(`sockets/events/${of}?resend_mode=all&session_api_key=${secret}`, document.baseURI);
          const socket = new WebSocket(to.href.replace(/^http/, 'ws'));
          socket.onmessage = (event) => resolve(JSON.parse(event.data).kind);
          socket.onclose = (event) => reject(new Error(`closed: ${event.code} ${event.reason}`));
        }),
      [id, key],
    );
    assert.match(heard, /Event$/);
    await page.goto(at); // without the slash
    await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
    assert.equal(page.url().replace(/#.*/, ''), `${at}/`);
  });

  await step('behind nginx: a file of 20 MiB goes in and comes out', async (go) => {
    const page = await go(trusting, at);
    await begin(page, 'finish: ready');
    await timeline(page).getByText('ready', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Files', exact: true }).click();
    const panel = page.getByRole('region', { name: 'Files', exact: true });
    const buffer = randomBytes(20 << 20);
    await panel
      .locator('input[type=file]')
      .setInputFiles({ name: 'big.bin', mimeType: 'application/octet-stream', buffer });
    await panel.getByRole('button', { name: 'big.bin', exact: true }).click();
    await panel.getByText('This file is no text').waitFor();
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      panel.getByRole('button', { name: 'Download' }).first().click(),
    ]);
    const sum = createHash('sha256');
    for await (const part of await saved.createReadStream()) sum.update(part);
    assert.equal(sum.digest('hex'), createHash('sha256').update(buffer).digest('hex'));
  });

  await step('behind nginx: previews of ports have an origin of their own', async (go) => {
    const page = await go(trusting, at);
    const port = 20_000 + Math.floor(Math.random() * 20_000);
    const asked = `<script>fetch('data.txt?a=%2F').then((r) => r.text()).then((t) => document.body.append(t))</script>`;
    await begin(
      page,
      `run: echo "${asked}" > index.html; echo fetched-$((40+2)) > data.txt; python3 -m http.server ${port} >/dev/null 2>&1 &\nfinish: it listens`,
    );
    await timeline(page).getByText('it listens', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Actions', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Cost, network' }).click();
    const dialog = page.getByRole('dialog', { name: 'Details' });
    await dialog.getByRole('tab', { name: 'Ports' }).click();
    const [preview] = await Promise.all([
      page.context().waitForEvent('page'),
      dialog.getByRole('button', { name: `Open: Port ${port}` }).click(),
    ]);
    await preview.getByText('fetched-42').waitFor();
    assert.match(preview.url(), new RegExp(`^https://${port}-[0-9A-Za-z-]+\\.preview\\.localhost:`));
    assert.ok(!preview.url().includes('ticket'));
  });
}
