// What a user meets when something is not as usual.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { accessible, api, begin, status, step, timeline, url } from '../harness.mjs';

const scripted = { model: 'demo/scripted', base_url: null, api_key: '' };

await step('review: a link whose text names another place says where it goes', async (go) => {
  const page = await go();
  await begin(page, 'say: [https://good.example/?192.0.2.1](http://192.0.2.1/login)');
  await timeline(page).getByRole('link', { name: 'https://good.example/?192.0.2.1 (192.0.2.1)' }).last().waitFor();
});

await step('review: a sandbox that was deleted is said, and the task can begin anew', async (go) => {
  const page = await go();
  const id = await begin(page, 'finish: the first and the last');
  await status(page, 'Finished.');
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('menuitem', { name: 'Download trajectory' }).click(),
  ]);
  assert.equal(saved.suggestedFilename(), 'finish-the-first-and-the-last.json');
  assert.ok(JSON.parse(readFileSync(await saved.path(), 'utf8')).trajectory.length > 3);
  const { sandbox_id: sandbox } = await api('GET', `/api/v1/app-conversations/${id}`);
  await api('DELETE', `/api/v1/sandboxes/${sandbox}`);
  await status(page, 'The sandbox was deleted');
  assert.equal(await timeline(page).getByRole('button', { name: 'Continue from here' }).count(), 0);
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  assert.equal(await page.getByRole('menuitem', { name: 'Fork' }).count(), 0);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'New conversation with this task' }).click();
  await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
  assert.equal(await page.getByLabel('First message').inputValue(), 'finish: the first and the last');
});

await step('review: a model that does not work is told when it is saved', async (go) => {
  const page = await go();
  try {
    await page.goto(`${url}/#/settings/model`);
    await page.getByRole('combobox', { name: 'Model' }).fill('openai/never-seen');
    await page.getByLabel('API key', { exact: true }).fill('sk-not-a-key');
    await page.getByLabel('Base URL').fill('http://127.0.0.1:9/v1');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('The model does not answer').waitFor();
    await page.waitForTimeout(500); // what is stored arrives meanwhile
    await page.getByText('The model does not answer').waitFor();
    assert.equal(await page.getByLabel('API key', { exact: true }).inputValue(), '');
  } finally {
    await api('POST', '/api/v1/settings', { agent_settings_diff: { llm: scripted } });
  }
});

await step('review: what was not saved in the settings is there when one comes back', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/settings/general`);
  await page.getByLabel('Steps of a run at most').fill('123');
  await page.getByRole('tab', { name: 'Secrets' }).click();
  await page.getByRole('link', { name: 'Sandboxes' }).click();
  await page.goto(`${url}/#/settings/general`);
  assert.equal(await page.getByLabel('Steps of a run at most').inputValue(), '123');
  assert.notEqual((await api('GET', '/api/v1/settings')).conversation_settings.max_iterations, 123);
});

await step('review: a setting of the legacy API is stored, and changes no other', async (go) => {
  await api('POST', '/api/v1/settings', { enable_proactive_conversation_starters: false });
  const page = await go();
  await page.goto(`${url}/#/settings/more`);
  const box = page.getByLabel('Analysis of solvability');
  await page.waitForFunction(() => document.querySelectorAll('input[type=checkbox]:disabled').length === 0);
  assert.equal(await box.isChecked(), true);
  await box.click();
  await page.getByText('Settings saved.').first().waitFor();
  const stored = await api('GET', '/api/settings');
  assert.equal(stored.enable_solvability_analysis, false);
  assert.equal(stored.enable_proactive_conversation_starters, false);
});

await step('review: the tab tells what runs and waits, and a tone calls', async (go) => {
  await api('POST', '/api/v1/settings', {
    enable_sound_notifications: true,
    conversation_settings_diff: { confirmation_mode: true },
  });
  try {
    const page = await go();
    await page.evaluate(() => {
      window.tones = 0;
      const start = OscillatorNode.prototype.start;
      OscillatorNode.prototype.start = function (...args) {
        window.tones++;
        return start.apply(this, args);
      };
    });
    const title = (text) => page.waitForFunction((part) => document.title.includes(part), text);
    await title('Parley');
    const id = await begin(page, 'think\nrun: sleep 3\nfinish: x');
    await title('Waiting for you · Parley');
    await page.waitForFunction(() => document.querySelector('link[rel=icon]').href.includes('waiting'));
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByRole('link', { name: 'Sandboxes' }).click();
    await title('Sandboxes · Parley');
    await page.waitForFunction(() => window.tones > 0);
    await page.goto(`${url}/#/c/${id}`);
    await title('Finished · Parley');
  } finally {
    await api('POST', '/api/v1/settings', {
      enable_sound_notifications: false,
      conversation_settings_diff: { confirmation_mode: false },
    });
  }
});

await step('review: the filter finds what is on later pages, and by repository', async (go) => {
  const page = await go();
  await begin(page, 'finish: x');
  await status(page, 'Finished.');
  const [model] = (await api('GET', '/api/v1/app-conversations/search?limit=1')).items;
  const of = (n, more) => ({ ...model, id: n.toString(16).padStart(32, '0'), title: `made up ${n}`, ...more });
  await page.route('**/api/v1/app-conversations/search?**', (route) => {
    const from = Number(new URL(route.request().url()).searchParams.get('page_id') ?? 0);
    const items = Array.from({ length: 50 }, (_, n) =>
      of(from + n, from + n === 149 ? { execution_status: 'error', selected_repository: 'far/away' } : {}),
    );
    return route.fulfill({ json: { items, next_page_id: from < 100 ? String(from + 50) : null } });
  });
  await page.reload();
  await page.getByRole('link', { name: 'made up 0' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'made up 149' }).count(), 0);
  await page.getByRole('button', { name: 'Problems' }).click();
  await page.getByRole('link', { name: 'made up 149' }).waitFor();
  await page.getByText('Ended with an error').waitFor();
  await page.getByRole('button', { name: 'All', exact: true }).click();
  await page.getByLabel('Where they work').selectOption('far/away');
  await page.getByRole('link', { name: 'made up 0' }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'made up 149' }).waitFor();
  await accessible(page, 'filtered list');
});

await step('review: a server that cannot be reached is said, and forgotten when it is back', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/sandboxes`);
  await page.context().setOffline(true);
  await status(page, 'The server cannot be reached');
  await accessible(page, 'offline');
  await page.context().setOffline(false);
  await page.getByText('What is shown may be old').waitFor({ state: 'detached' });
});

await step('review: repository, model and keys of the page', async (go) => {
  await api('POST', '/api/v1/settings', { agent_settings_diff: { llm: scripted } });
  const page = await go();
  await page.getByText('Options:').click();
  await page.getByRole('textbox', { name: 'Repository' }).fill('not-an-address');
  await page.getByLabel('First message').fill('finish: x');
  await page.getByLabel('First message').press('Enter');
  await page.getByText('not-an-address names no repository').first().waitFor();
  await accessible(page, 'options');
  await page.getByRole('textbox', { name: 'Repository' }).fill('http://127.0.0.1:9/a/b.git');
  await page.getByLabel('Branch').fill('dev');
  await page.getByLabel('First message').press('Enter');
  await page.waitForURL(/#\/c\/[0-9a-f]{32}/);
  await timeline(page).getByText('Something went wrong').waitFor();
  await page.getByText('127.0.0.1:9/a/b · dev').waitFor();

  await page.locator('h1').click();
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await accessible(page, 'keys');
  await dialog.getByLabel('Shortcuts of one key').uncheck();
  await page.keyboard.press('Escape');
  await page.locator('h1').click();
  await page.keyboard.press('/');
  assert.notEqual(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.press('Alt+n');
  await page.getByRole('heading', { name: 'What should be done?' }).waitFor();
});
