// Long logs, large events, and connections that break: what is shown is what is stored.
import { strict as assert } from 'node:assert';
import { api, begin, message, please, status, step, timeline } from '../harness.mjs';

const box = (page) => page.locator('section[tabindex="0"][aria-label="Timeline"]');
const rows = (page) => box(page).locator('[data-index]');

/** What the page asked the API for while work ran, as paths. */
async function asked(page, work) {
  const paths = [];
  const note = (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/api/')) paths.push(pathname.replace(/[0-9a-f]{32}/, 'ID'));
  };
  page.on('request', note);
  await work();
  page.off('request', note);
  return paths;
}

async function log(id) {
  const all = [];
  for (let page = ''; ; ) {
    const got = await api('GET', `/api/v1/conversation/${id}/events/search?limit=100${page}`);
    all.push(...got.items);
    if (!got.next_page_id) return all;
    page = `&page_id=${got.next_page_id}`;
  }
}

/** The texts of what is shown, which are the same after the page was loaded again. */
async function sameAfterReload(page, last) {
  const texts = () => rows(page).allInnerTexts();
  const before = await texts();
  await page.reload();
  await timeline(page).getByText(last, { exact: true }).waitFor();
  assert.deepEqual(await texts(), before);
}

await step('a long log: few requests, few rows, an event in its middle, its beginning', async (go) => {
  await api('POST', '/api/v1/settings', { agent_settings_diff: { condenser: { enabled: false } } });
  const page = await go();
  const id = await begin(page, 'finish: the first answer');
  await timeline(page).getByText('the first answer', { exact: true }).waitFor();
  await page.goto('about:blank');
  await please('grow', { id, kind: 'usual', events: 6000 });
  const events = await log(id);
  assert.ok(events.length > 6000);

  const url = new URL(`/#/c/${id}`, process.env.WEBUI_URL).href;
  let paths = await asked(page, async () => {
    await page.goto(url);
    await timeline(page).getByText('The very end').waitFor();
  });
  const about = paths.filter((path) => path.includes('ID'));
  assert.ok(about.length <= 4, `to open it takes ${about.join(', ')}`);
  assert.ok(paths.length <= 8, paths.join(', '));
  assert.ok((await rows(page).count()) < 40, 'only what is visible is there');

  // One that is far away comes in one answer, not page by page.
  const middle = events.find((each, at) => at > events.length / 2 && each.source === 'user');
  const text = middle.llm_message.content[0].text;
  paths = await asked(page, async () => {
    await page.goto(`${url}?event=${middle.id}`);
    await page.reload();
    await timeline(page).getByText(text, { exact: true }).waitFor();
  });
  assert.ok(paths.length <= 16, paths.join(', '));
  assert.ok((await rows(page).count()) < 60, 'only what is visible is there');

  await page.goto('about:blank');
  await page.goto(url);
  await timeline(page).getByText('The very end').waitFor();
  await box(page).focus();
  paths = await asked(page, async () => {
    await page.keyboard.press('Home');
    await timeline(page).getByText('the first answer', { exact: true }).waitFor();
  });
  assert.ok(paths.length <= 12, paths.join(', '));

  // What is new comes at the end while all of it is there.
  await box(page).focus();
  await page.keyboard.press('End');
  await timeline(page).getByText('The very end').waitFor();
  await message(page, 'finish: one more');
  await timeline(page).getByText('one more', { exact: true }).waitFor();
});

await step('very large events are shown in part', async (go) => {
  const page = await go();
  const id = await begin(page, 'finish: small');
  await timeline(page).getByText('small', { exact: true }).waitFor();
  const url = page.url();
  await page.goto('about:blank');
  await please('grow', { id, kind: 'large', events: 0 });
  await page.goto(url);
  await timeline(page).locator('strong', { hasText: 'large' }).last().waitFor();
  await page.waitForTimeout(300);
  const size = () => page.evaluate('document.querySelectorAll("*").length');
  assert.ok((await size()) < 12_000, `${await size()} elements`);
  assert.equal(
    await timeline(page)
      .getByRole('button', { name: /^Show \d+ more images$/ })
      .count(),
    1,
  );
  assert.ok((await timeline(page).locator('img').count()) <= 12);
  await timeline(page).getByRole('button', { name: 'Edit large.txt' }).click();
  const difference = timeline(page).getByRole('region', { name: 'Changes' });
  await difference.getByRole('button', { name: /lines are hidden/ }).waitFor();
  assert.ok((await difference.locator('tr').count()) <= 300);
  await difference.getByRole('button', { name: /lines are hidden/ }).click();
  await difference.locator('tr').nth(1000).waitFor();
});

await step('a connection that breaks again and again: no gap, no double', async (go) => {
  const page = await go({ viewport: { width: 1280, height: 3000 } }); // all rows are visible
  const id = await begin(page, 'finish: ready');
  await timeline(page).getByText('ready', { exact: true }).waitFor();
  const other = await page.context().newPage(); // a second tab
  await other.goto(page.url());
  await timeline(other).getByText('ready', { exact: true }).waitFor();
  await message(
    page,
    [...Array.from({ length: 12 }, (_, n) => `run: sleep 0.2; echo step-${n}`), 'tokens 300'].join('\n'),
  );
  await timeline(page).getByRole('button', { name: 'echo step-0' }).waitFor();
  for (let i = 0; i < 4; i++) {
    await page.context().setOffline(true);
    await page.waitForTimeout(250);
    await page.context().setOffline(false);
    await page.waitForTimeout(350);
  }
  for (const each of [page, other])
    await timeline(each)
      .getByText(/word-300/)
      .waitFor();
  await status(page, 'Finished.');
  const said = await timeline(page)
    .getByText(/word-300/)
    .last()
    .innerText();
  assert.equal(said.match(/word-150\b/g)?.length, 1, 'a piece is there twice');
  const texts = await rows(page).allInnerTexts();
  assert.deepEqual(await rows(other).allInnerTexts(), texts);
  for (let n = 0; n < 12; n++)
    assert.equal(
      texts.filter((each) => new RegExp(`^Command.*echo step-${n}\\b`, 's').test(each)).length,
      1,
      `step ${n}`,
    );
  assert.equal(
    (await log(id)).filter((each) => each.tool_name === 'terminal' && each.kind === 'ActionEvent').length,
    12,
  );
});

await step('a server that is killed while it works, twice: the page tells so and goes on', async (go) => {
  const page = await go();
  const id = await begin(page, 'finish: ready');
  await timeline(page).getByText('ready', { exact: true }).waitFor();
  await message(
    page,
    [...Array.from({ length: 8 }, (_, n) => `run: sleep 0.3; echo part-${n}`), 'finish: survived'].join('\n'),
  );
  for (const n of [1, 4]) {
    await timeline(page)
      .getByRole('button', { name: `echo part-${n}` })
      .waitFor();
    const told = status(page, 'Reconnecting');
    await please('restart');
    await told;
  }
  await timeline(page).getByText('survived', { exact: true }).waitFor();
  await status(page, 'Finished.');
  const stored = (await log(id)).filter((each) => each.kind === 'ActionEvent').length;
  const shown = await timeline(page)
    .getByRole('button', { name: /^Command/ })
    .count();
  assert.equal(shown, stored - 2); // the two answers are no steps
  await sameAfterReload(page, 'survived');
});

await step('a page that slept shows what happened meanwhile', async (go) => {
  const page = await go();
  const id = await begin(page, 'finish: awake');
  await timeline(page).getByText('awake', { exact: true }).waitFor();
  const browser = await page.context().newCDPSession(page);
  await browser.send('Page.setWebLifecycleState', { state: 'frozen' });
  for (let n = 0; n < 3; n++)
    await api('POST', `/api/v1/app-conversations/${id}/send-message`, {
      role: 'user',
      content: [{ type: 'text', text: `while it slept ${n}` }],
      run: false,
    });
  await please('restart');
  await browser.send('Page.setWebLifecycleState', { state: 'active' });
  for (let n = 0; n < 3; n++) await timeline(page).getByText(`while it slept ${n}`, { exact: true }).waitFor();
  assert.equal(
    await timeline(page)
      .getByText(/^while it slept/)
      .count(),
    3,
  );
});
