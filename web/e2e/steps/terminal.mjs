import { strict as assert } from 'node:assert';
import { accessible, api, begin, step, timeline } from '../harness.mjs';

const open = (page) => page.getByRole('button', { name: 'Terminal', exact: true }).click();
const panelOf = (page) => page.getByRole('region', { name: 'Terminal', exact: true });

/** Waits until the terminal shows a text, which must not be part of what is typed. */
const shows = (page, text) =>
  page.waitForFunction(
    (wanted) => document.querySelector('.xterm-rows')?.textContent.replaceAll('\u00a0', ' ').includes(wanted),
    text,
  );

/** Waits for the shell to ask: what is typed while it interrupts a program may be lost. */
const asks = (page) =>
  page.waitForFunction(() => {
    const rows = [...document.querySelectorAll('.xterm-rows > div')].map((row) => row.textContent.trim());
    return /[#$]$/.test(rows.findLast((text) => text !== '') ?? '');
  });

async function type(page, text) {
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
}

await step('terminal: a shell in the sandbox, its colours, size, keys and end', async (go) => {
  const page = await go();
  await begin(page, 'run: echo from the agent > made.txt\nfinish: ready');
  await timeline(page).getByText('ready', { exact: true }).waitFor();
  await open(page);
  const panel = panelOf(page);
  await panel.getByRole('textbox', { name: 'Type into the terminal' }).waitFor();
  await type(page, 'cat made.txt; echo "size $(stty size)"; [ -t 0 ] && echo "is a t""ty"');
  await shows(page, 'from the agent');
  await shows(page, 'is a tty');

  // Colours come from style sheets and the style object: the page's policy holds.
  await type(page, "printf '\\033[31mre''d\\033[0m \\033[48;2;10;120;40mgre''en\\033[0m\\n'");
  await shows(page, 'red green');
  const look = (text) =>
    panel.locator('.xterm-rows span', { hasText: new RegExp(`^${text}$`) }).evaluate((el) => {
      const { color, backgroundColor } = getComputedStyle(el);
      return { color, backgroundColor };
    });
  assert.notEqual((await look('red')).color, (await look('green')).color);
  assert.equal((await look('green')).backgroundColor, 'rgb(10, 120, 40)');
  const rows = () => panel.locator('.xterm-rows > div').count();
  const before = await rows();
  await page.setViewportSize({ width: 1280, height: 500 });
  await page.waitForFunction((n) => document.querySelectorAll('.xterm-rows > div').length < n, before);
  const after = await rows();
  await type(page, 'echo "now $(stty size)"');
  await shows(page, `now ${after} `);
  await accessible(page, 'a terminal');

  // What a program prints as a link opens nothing.
  await type(page, "printf '\\033]8;;http://192.0.2.1/evil\\033\\\\cli''ck me\\033]8;;\\033\\\\\\n'");
  await shows(page, 'click me');
  await panel.getByText('click me', { exact: false }).last().click({ force: true });
  assert.equal(page.context().pages().length, 1);

  // Paste and interrupt.
  await panel.getByRole('textbox', { name: 'Type into the terminal' }).evaluate((el) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', `sh -c 'echo "sl""eeps"; exec sleep 1000'`);
    el.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  });
  await page.keyboard.press('Enter');
  await shows(page, 'sleeps');
  await page.keyboard.press('Control+c');
  await asks(page);
  await type(page, 'echo "co""de $?"');
  await shows(page, 'code 130');

  // The shell goes on while the panel is away; the focus can leave by a key.
  await type(page, 'KEPT=yes');
  await page.keyboard.press('Control+Shift+L');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Terminal');
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'hidden' });
  await page.waitForFunction(() => document.activeElement?.getAttribute('data-panel') === 'terminal');
  await page.getByRole('button', { name: 'Files', exact: true }).click();
  await page.getByRole('button', { name: 'made.txt', exact: true }).waitFor();
  await open(page);
  await type(page, 'echo "ke""pt: $KEPT"');
  await shows(page, 'kept: yes');

  await type(page, 'exit 3');
  await panel.getByText('The shell has ended (exit code 3).').waitFor();
  await panel.getByRole('button', { name: 'New shell' }).click();
  await type(page, 'echo "ag""ain [$KEPT]"');
  await shows(page, 'again []');
  await panel.getByRole('button', { name: 'For screen readers' }).click();
  await panel.locator('.xterm-accessibility').waitFor({ state: 'attached' });
  await accessible(page, 'a terminal for screen readers');
  await panel.getByRole('button', { name: 'For screen readers' }).click();
  await panel.getByRole('button', { name: 'End the shell and close' }).click();
  await panel.waitFor({ state: 'detached' });
});

await step('terminal: a flood, a pause, 360 px', async (go) => {
  const page = await go({ viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  const id = await begin(page, 'finish: ready');
  await timeline(page).getByText('ready', { exact: true }).waitFor();
  await open(page);
  const panel = panelOf(page);
  await panel.getByRole('textbox', { name: 'Type into the terminal' }).waitFor();
  await type(page, 'yes | head -c 20000000; echo "flood o""ver"');
  await shows(page, 'flood over');
  await type(page, 'yes');
  await shows(page, 'yyy');
  await page.keyboard.press('Control+c');
  await asks(page);
  await type(page, 'echo "calm ag""ain"');
  await shows(page, 'calm again');
  assert.ok((await page.evaluate('document.documentElement.scrollWidth')) <= 360);
  await panel.getByRole('button', { name: 'Hide; the shell goes on' }).click();
  await panel.waitFor({ state: 'hidden' });
  await open(page);
  await shows(page, 'calm again');
  await accessible(page, 'a terminal at 360 px, dark');

  const { sandbox_id: sandbox } = await api('GET', `/api/v1/app-conversations/${id}`);
  await api('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await panel.getByText('The sandbox is paused').waitFor();
  await panel.getByRole('button', { name: 'Resume' }).click();
  await panel.getByText('The sandbox is paused').waitFor({ state: 'detached' });
  await panel.getByRole('textbox', { name: 'Type into the terminal' }).focus();
  await type(page, 'echo "aw""ake"');
  await shows(page, 'awake');
  await panel.getByRole('button', { name: 'End the shell and close' }).click();

  // One that is opened while the sandbox is paused says so.
  await api('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await page.getByRole('status').filter({ hasText: 'The sandbox is paused' }).first().waitFor({ state: 'attached' });
  await open(page);
  await panel.getByText('The sandbox is paused').waitFor();
  await accessible(page, 'a terminal of a paused sandbox');
  await panel.getByRole('button', { name: 'Resume' }).click();
  await panel.getByRole('textbox', { name: 'Type into the terminal' }).waitFor();
  await type(page, 'echo "fr""esh"');
  await shows(page, 'fresh');
});
