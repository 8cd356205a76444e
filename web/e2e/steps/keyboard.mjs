import { strict as assert } from 'node:assert';
import { accessible, api, begin, key, status, step, timeline, url } from '../harness.mjs';

/** Presses a key until something is focused, which must be seen to be. */
async function reach(page, name, press = 'Tab', most = 60) {
  for (let i = 0; i < most; i++) {
    await page.keyboard.press(press);
    const now = await page.evaluate(() => {
      const at = document.activeElement;
      const named = at?.getAttribute('aria-label') ?? at?.labels?.[0]?.textContent ?? at?.textContent ?? '';
      let ring = at;
      while (ring && getComputedStyle(ring).outlineStyle === 'none') ring = ring.parentElement;
      return { name: named.trim(), seen: ring !== null && ring !== document.documentElement };
    });
    if (now.name !== name) continue;
    assert.ok(now.seen, `${name} has the focus, and nothing shows it`);
    return;
  }
  assert.fail(`${name} is not reached with ${press}`);
}

await step('everything without a mouse: a conversation, a refusal with a reason, the settings', async (go) => {
  await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: true } });
  try {
    const page = await go();
    await page.keyboard.press('Alt+n');
    await page.waitForFunction(() => document.activeElement?.tagName === 'TEXTAREA');
    await page.keyboard.type('run: echo first-$((1+1))');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('run: echo second-$((2+2))');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'The agent wants to run this:' }).waitFor();
    await reach(page, 'Run');
    await page.keyboard.press('Enter');
    await page.getByText('$ echo second-$((2+2))').first().waitFor();
    await reach(page, 'Refuse');
    await page.keyboard.press('Enter');
    await page.keyboard.type('not with the keyboard');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'The agent wants to run this:' }).waitFor({ state: 'detached' });
    await status(page, 'Ready for a message.');
    await reach(page, 'Timeline', 'Shift+Tab');
    for (let i = 0; i < 30 && (await page.getByText('not with the keyboard').count()) === 0; i++) {
      await page.keyboard.press('Tab');
      const on = await page.evaluate(() => document.activeElement?.textContent ?? '');
      if (/^Command.*second/s.test(on)) await page.keyboard.press('Enter');
    }
    await page.getByText('not with the keyboard').waitFor();

    await page.evaluate(() => document.activeElement?.blur());
    await reach(page, 'Settings');
    await page.keyboard.press('Enter');
    await page.getByRole('tab', { name: 'Model', exact: true }).waitFor();
    await reach(page, 'Skip to content', 'Shift+Tab'); // the list may be long
    await page.keyboard.press('Enter');
    await reach(page, 'Model');
    for (const tab of ['profiles', 'mcp', 'general']) {
      await page.keyboard.press('ArrowRight');
      await page.waitForURL(new RegExp(`settings/${tab}`));
    }
    await reach(page, 'Name of commits');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('Grace');
    await page.keyboard.press('Enter');
    await page.getByText('Settings saved.').first().waitFor();
    assert.equal((await api('GET', '/api/v1/settings')).git_user_name, 'Grace');
  } finally {
    await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: false } });
  }
});

await step('language and theme are changed at once, and kept', async (go) => {
  const page = await go({ colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const language = () => page.evaluate(() => document.documentElement.lang);
  const light = await ground();
  const choose = async (menu, name) => {
    await page.getByRole('button', { name: menu }).click();
    await page.getByRole('menuitemradio', { name, exact: true }).click();
    await page.keyboard.press('Escape');
  };
  await choose('Appearance and account', 'Dark');
  await page.waitForFunction((before) => getComputedStyle(document.body).backgroundColor !== before, light);
  await accessible(page, 'dark');
  await choose('Appearance and account', 'Deutsch');
  await page.getByRole('link', { name: 'Einstellungen' }).waitFor();
  assert.equal(await language(), 'de');
  await page.reload();
  await page.getByRole('link', { name: 'Einstellungen' }).waitFor();
  assert.notEqual(await ground(), light);
  for (const place of ['new', 'sandboxes', 'settings/general', 'settings/git', 'settings/more']) {
    await page.goto(`${url}/#/${place}`);
    await page.waitForTimeout(300);
    await accessible(page, `German ${place}`);
  }
  await choose('Darstellung und Konto', 'Français');
  await page.getByRole('link', { name: 'Réglages' }).waitFor();
  assert.equal(await language(), 'fr');
  await choose('Apparence et compte', 'English');
  await page.getByRole('link', { name: 'Settings' }).waitFor();
  await choose('Appearance and account', 'Light');
  await page.waitForFunction((before) => getComputedStyle(document.body).backgroundColor === before, light);
});

await step('a key that is no longer taken is asked for again, where one was', async (go) => {
  const page = await go();
  const made = await api('POST', '/api/keys', { name: 'soon gone' });
  await page.goto(`${url}/#key=${made.key}`);
  await page.waitForFunction((given) => JSON.stringify(localStorage).includes(given), made.key);
  const id = await begin(page, 'finish: before');
  await timeline(page).getByText('before', { exact: true }).waitFor();
  const keys = await api('GET', '/api/keys');
  const { id: mine } = (keys.items ?? keys).find((each) => each.name === 'soon gone');
  await fetch(`${url}/api/keys/${mine}`, { method: 'DELETE', headers: { Authorization: `Bearer ${key}` } });
  // What is open ends with the key, and nobody has to do anything.
  await page.getByText(/no longer|not take/).waitFor();
  await page.getByLabel('API key').waitFor();
  await accessible(page, 'asked again');
  assert.equal(await page.getByText('before', { exact: true }).count(), 0);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('pk-')), false);
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Open' }).click();
  await timeline(page).getByText('before', { exact: true }).waitFor();
  assert.ok(page.url().includes(id));
});
