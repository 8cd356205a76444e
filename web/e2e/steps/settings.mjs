import { strict as assert } from 'node:assert';
import { accessible, api, begin, step, timeline, url } from '../harness.mjs';
import { toolServer } from '../toolserver.mjs';

await step('settings: a model that cannot be reached is told in words, and secrets are not shown', async (go) => {
  const page = await go();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('combobox', { name: 'Model' }).fill('openai/none');
  await page.getByLabel('API key', { exact: true }).fill('sk-not-a-key');
  await page.getByLabel('Base URL').fill('http://127.0.0.1:9/v1');
  await page.getByRole('button', { name: 'Test connection' }).click();
  await page.getByText('The model does not answer').waitFor();
  await page.getByText(/cannot reach 127\.0\.0\.1:9/).waitFor();
  await accessible(page, 'settings');
  await page.getByRole('tab', { name: 'General' }).click();
  await page.getByLabel('Name of commits').fill('Ada');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Settings saved.').first().waitFor();
  await accessible(page, 'general settings');
  await page.reload();
  assert.equal(await page.getByLabel('Name of commits').inputValue(), 'Ada');
});

await step('keys and secrets: shown once or never, and deleted after a question', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/settings/keys`);
  await page.getByLabel('Name').fill('a program');
  await page.getByRole('button', { name: 'Create key' }).click();
  const made = await page.locator('code', { hasText: 'pk-' }).textContent();
  const open = () => fetch(`${url}/api/keys`, { headers: { Authorization: `Bearer ${made}` } });
  assert.equal((await open()).status, 200);
  await accessible(page, 'keys');
  await page.getByRole('button', { name: 'Delete: a program' }).click();
  await accessible(page, 'a question');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('You have made no keys.').waitFor();
  assert.equal((await open()).status, 401);

  await page.getByRole('tab', { name: 'Secrets' }).click();
  await page.getByLabel('Name').fill('DEPLOY_TOKEN');
  await page.getByLabel('Value').fill('hunter2-hunter2');
  await page.getByRole('button', { name: 'Store secret' }).click();
  await page.getByText('DEPLOY_TOKEN').first().waitFor();
  await begin(page, 'run: echo "$DEPLOY_TOKEN"; printf %s "$DEPLOY_TOKEN" | wc -c\nfinish: done');
  await page.getByRole('button', { name: /^Command echo/ }).click();
  await page.getByText(/\n15$/).waitFor();
  assert.ok(!(await timeline(page).innerText()).includes('hunter2'));
  await page.goto(`${url}/#/settings/secrets`);
  await page.getByRole('button', { name: 'Delete: DEPLOY_TOKEN' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There are no secrets.').waitFor();
});

await step('setup: MCP servers are tested, stored, switched off and deleted', async (go) => {
  const tools = await toolServer('right-token');
  const page = await go();
  await page.goto(`${url}/#/settings/mcp`);
  await page.getByText('There are no MCP servers.').waitFor();
  await page.getByRole('button', { name: 'Add MCP server' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name', { exact: true }).fill('weather');
  await form.getByLabel('Address').fill(tools.address);
  await form.getByLabel('Authentication').selectOption('Token');
  await form.getByLabel('Token', { exact: true }).fill('wrong-token');
  await form.getByRole('button', { name: 'Test connection' }).click();
  await form.getByText('The server cannot be used').waitFor();
  await accessible(page, 'a server that cannot be used');
  await form.getByLabel('Token', { exact: true }).fill('right-token');
  await form.getByRole('button', { name: 'Test connection' }).click();
  await form.getByText('It answers, and has 1 tool.').waitFor();
  await form.getByText('weather_report').waitFor();
  await form.getByRole('button', { name: 'Save' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByText(tools.address).waitFor();
  await accessible(page, 'MCP servers');

  // What is stored is not shown, and still serves; another address needs it again.
  await page.getByRole('button', { name: 'Edit: weather' }).click();
  assert.equal(await form.getByLabel('Token', { exact: true }).inputValue(), '');
  await form.getByRole('button', { name: 'Test connection' }).click();
  await form.getByText('It answers, and has 1 tool.').waitFor();
  await form.getByLabel('Address').fill('http://127.0.0.1:9/mcp');
  await form.getByRole('button', { name: 'Save' }).click();
  await form.getByText(/^weather · Authentication.*: The stored value belongs to another server/).waitFor();
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'Disable: weather' }).click();
  await page.getByText('switched off').waitFor();
  await page.getByRole('button', { name: 'Add MCP server' }).click();
  await form.getByLabel('Name', { exact: true }).fill('files');
  await form.getByLabel('Kind').selectOption('stdio');
  await form.getByLabel('Command').fill('npx');
  await form.getByLabel('Arguments').fill('-y\n@example/files');
  await form.getByRole('group', { name: 'Environment variables' }).getByRole('button', { name: 'Add' }).click();
  await form.getByLabel('Environment variables: Name 1').fill('ROOT');
  await form.getByLabel('Environment variables: Value 1').fill('/srv');
  await form.getByRole('button', { name: 'Save' }).click();
  await page.getByText('npx -y @example/files').waitFor();
  const stored = (await api('GET', '/api/v1/settings')).agent_settings.mcp_config;
  assert.deepEqual(Object.keys(stored), ['files', 'weather']);
  assert.equal(stored.weather.enabled, false);
  assert.deepEqual(stored.files.args, ['-y', '@example/files']);
  for (const name of ['files', 'weather']) {
    await page.getByRole('button', { name: `Delete: ${name}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: `Delete: ${name}` }).waitFor({ state: 'detached' });
  }
  tools.close();
});

await step('setup: LLM profiles are made, tested, changed, activated and deleted', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/settings/profiles`);
  await page.getByText('There are no LLM profiles.').waitFor();
  await page.getByRole('button', { name: 'Add LLM profile' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name of the profile').fill('cheap');
  await form.getByRole('combobox', { name: 'Model' }).fill('openai/none');
  await form.getByLabel('API key', { exact: true }).fill('sk-not-a-key');
  await form.getByLabel('Base URL').fill('http://127.0.0.1:9/v1');
  await form.getByText('More', { exact: true }).click();
  await form.getByLabel('Dollars for a million tokens read').fill('2.5');
  await accessible(page, 'a profile');
  await form.getByRole('button', { name: 'Save and test' }).click();
  await form.getByText(/Dollars for a million tokens written.*(needed|or none)/).waitFor();
  await form.getByLabel('Dollars for a million tokens written').fill('10');
  await form.getByRole('button', { name: 'Save and test' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByText('The model does not answer').waitFor();
  await accessible(page, 'profiles');

  await page.getByRole('button', { name: 'Edit: cheap' }).click();
  assert.equal(await form.getByLabel('API key', { exact: true }).inputValue(), '');
  await form.getByLabel('Name of the profile').fill('cheaper');
  await form.getByLabel('Reasoning effort').selectOption('low');
  await form.getByRole('button', { name: 'Save and test' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByText('openai/none · http://127.0.0.1:9/v1 · with a key').waitFor();
  const { config } = await api('GET', '/api/v1/settings/profiles/cheaper');
  assert.equal(config.reasoning_effort, 'low');
  assert.equal(config.input_cost_per_token, 0.0000025);
  await page.getByRole('button', { name: 'Activate: cheaper' }).click();
  await page.getByText('Active', { exact: true }).waitFor();
  assert.equal((await api('GET', '/api/v1/settings')).agent_settings.llm.model, 'openai/none');
  await page.getByRole('button', { name: 'Delete: cheaper' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There are no LLM profiles.').waitFor();
  await api('POST', '/api/v1/settings', {
    agent_settings_diff: { llm: { model: 'demo/scripted', base_url: null, api_key: '' } },
  });
});

await step('setup: webhooks, and the settings that few need', async (go) => {
  const page = await go();
  await page.goto(`${url}/#/settings/webhooks`);
  await page.getByText('There are no webhooks.').waitFor();
  await page.getByLabel('Address (URL)').fill('http://127.0.0.1:9/hook');
  await page.getByLabel('Description').fill('the build server');
  await page.getByRole('button', { name: 'Add webhook' }).click();
  await page.locator('code', { hasText: 'whsec_' }).waitFor();
  await page.getByRole('button', { name: 'Test: http://127.0.0.1:9/hook' }).click();
  await page.getByText('The test did not arrive').waitFor();
  await accessible(page, 'webhooks');
  await page.getByRole('button', { name: 'Deliveries: http://127.0.0.1:9/hook' }).click();
  await page
    .getByRole('dialog')
    .getByText(/Not arrived · test/)
    .waitFor();
  await accessible(page, 'deliveries');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Disable: http://127.0.0.1:9/hook' }).click();
  await page.getByRole('button', { name: 'Enable: http://127.0.0.1:9/hook' }).waitFor();
  await page.getByRole('button', { name: 'Delete: http://127.0.0.1:9/hook' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There are no webhooks.').waitFor();

  await page.getByRole('tab', { name: 'More' }).click();
  await page.getByLabel('Skills that are switched off').fill('one\n two ');
  await page.getByLabel('Sound notifications').check();
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Settings saved.').first().waitFor();
  await page.getByLabel('Key for web search', { exact: true }).fill('tvly-x');
  await page.getByRole('button', { name: 'Save: Key for web search' }).click();
  await page.getByRole('button', { name: 'Remove: Key for web search' }).waitFor();
  await accessible(page, 'more settings');
  const stored = await api('GET', '/api/v1/settings');
  assert.deepEqual(stored.disabled_skills, ['one', 'two']);
  assert.equal(stored.enable_sound_notifications, true);
  assert.equal(stored.search_api_key_set, true);
  await page.getByRole('button', { name: 'Remove: Key for web search' }).click();
  await page.getByRole('button', { name: 'Remove: Key for web search' }).waitFor({ state: 'detached' });
});
