// A session with the web UI in a browser, against the real server: see
// test/webui/webui_test.go for what it prints.
import { strict as assert } from 'node:assert';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const { WEBUI_URL: url, WEBUI_PROXY: proxied, WEBUI_KEY: key, WEBUI_BROWSER: executablePath } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const replies = readline.createInterface({ input: process.stdin });
const patience = 20_000;

async function please(what) {
  say({ do: what });
  await once(replies, 'line');
}

async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`);
  return answer.json();
}

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
const troubles = []; // what the page's policy refused, errors of the page, requests elsewhere

async function open(options = {}, at = url) {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on('pageerror', (error) => troubles.push(`error of the page: ${error.stack}`));
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML|TrustedScript/.test(message.text())) troubles.push(message.text());
  });
  page.on('request', (request) => {
    const to = new URL(request.url());
    if (!['data:', 'blob:'].includes(to.protocol) && to.origin !== new URL(at).origin)
      troubles.push(`a request to ${to}`);
  });
  await page.goto(`${at}/#key=${encodeURIComponent(key)}`);
  await page.getByRole('link', { name: 'Settings' }).waitFor();
  return page;
}

// WEBUI_ONLY names the steps to run, for who works on one of them.
const only = new RegExp(process.env.WEBUI_ONLY ?? '');

async function step(name, work) {
  if (!only.test(name)) return;
  const before = troubles.length;
  const pages = [];
  try {
    await work(async (...args) => {
      const page = await open(...args);
      pages.push(page);
      return page;
    });
    assert.deepEqual(troubles.slice(before), []);
    say({ step: name, status: 'ok' });
  } catch (error) {
    const shown = await Promise.all(
      pages.map((page) =>
        page
          .locator('body')
          .innerText({ timeout: 1000 })
          .catch(() => ''),
      ),
    );
    say({
      step: name,
      status: 'failed',
      detail: `${error?.stack ?? error}\nthe page shows:\n${shown.join('\n----\n').slice(0, 3000)}`,
    });
  } finally {
    for (const page of pages) await page.context().close();
  }
}

/** What axe finds serious about the page as it is. */
async function accessible(page, where) {
  await page.waitForTimeout(250); // colours fade in
  const found = await page.evaluate(
    `(() => { const module = undefined; ${axe}; return axe.run(document, { resultTypes: ['violations'] }); })()`,
  );
  const serious = found.violations.filter((each) => ['serious', 'critical'].includes(each.impact));
  assert.deepEqual(
    serious.map(
      (each) =>
        `${each.id}: ${each.nodes.map((node) => `${node.html.slice(0, 200)} ${node.failureSummary}`).join('\n')}`,
    ),
    [],
    where,
  );
}

async function begin(page, text) {
  await page.goto(`${page.url().split('#')[0]}#/new`);
  const box = page.getByLabel('First message');
  await box.fill(text);
  await box.press('Enter');
  await page.waitForURL(/#\/c\/[0-9a-f]{32}/);
  return /#\/c\/([0-9a-f]{32})/.exec(page.url())[1];
}

async function message(page, text) {
  const box = page.getByRole('textbox', { name: 'Message', exact: true });
  await box.fill(text);
  await box.press('Enter');
}

const timeline = (page) => page.getByRole('region', { name: 'Timeline' });
const status = (page, text) =>
  page.getByRole('status').filter({ hasText: text }).first().waitFor({ state: 'attached' });

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

await step('a conversation: steps, output, streamed text, markdown', async (go) => {
  const page = await go();
  await begin(page, 'run: echo out-$((40+2))\nfinish: the **end**');
  await page.getByRole('button', { name: /^Command echo/ }).click();
  await page.getByText('out-42').waitFor();
  await timeline(page).locator('strong', { hasText: 'end' }).waitFor();
  await message(page, 'tokens 400');
  await page.locator('[aria-busy]').getByText('word-3').waitFor(); // while it is written
  await page.getByText('word-400').waitFor();
  await status(page, 'Finished.');
});

await step('what a model writes loads nothing and says where it leads', async (go) => {
  const page = await go();
  await begin(
    page,
    'say: ![x](http://192.0.2.1/pixel.png) <img src="http://192.0.2.1/p.png"> [bank](http://192.0.2.1/login)',
  );
  await timeline(page)
    .getByRole('link', { name: /bank.*192\.0\.2\.1/ })
    .last()
    .waitFor();
  assert.equal(await timeline(page).locator('img').count(), 0);
});

await step('what needs consent is shown whole, and runs only with it', async (go) => {
  await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: true } });
  try {
    const page = await go();
    await begin(page, 'run: echo first-$((1+1))\nrun: echo second-$((2+2))');
    await page.getByRole('heading', { name: 'The agent wants to run this:' }).waitFor();
    const panel = page.getByRole('region', { name: 'The agent wants to run this:' });
    await panel.getByText('$ echo first-$((1+1))').waitFor();
    await accessible(page, 'confirmation');
    assert.equal(await page.getByText('first-2').count(), 0);
    await panel.getByRole('button', { name: 'Run' }).click();
    await panel.getByText('$ echo second-$((2+2))').waitFor();
    await panel.getByRole('button', { name: 'Refuse' }).click();
    await panel.getByLabel('Why not?').fill('not that one');
    await panel.getByRole('button', { name: 'Refuse' }).click();
    await panel.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /^Command echo first/ }).click();
    await page.getByText('first-2').waitFor();
    await page.getByRole('button', { name: /^Command echo second.*Refused/ }).click();
    await page.getByText('not that one').waitFor();
  } finally {
    await api('POST', '/api/v1/settings', { conversation_settings_diff: { confirmation_mode: false } });
  }
});

await step('a run can be stopped, steered and resumed', async (go) => {
  const page = await go();
  await begin(page, 'slow 60');
  await status(page, 'Command is running');
  await page.getByRole('button', { name: 'Stop' }).click();
  await timeline(page).getByText('Stopped', { exact: true }).waitFor();
  await message(page, 'finish: went on');
  await timeline(page).getByText('went on', { exact: true }).waitFor();
});

await step('after a crash of the server it goes on without a gap and without doubles', async (go) => {
  const page = await go();
  await begin(page, 'run: echo before-$((1+1))\nfinish: one');
  await timeline(page).getByText('one', { exact: true }).waitFor();
  await please('restart');
  await message(page, 'run: echo after-$((2+2))\nfinish: two').catch(() => {});
  await timeline(page).getByText('two', { exact: true }).waitFor();
  for (const text of ['one', 'two'])
    assert.equal(await timeline(page).getByText(text, { exact: true }).count(), 1, text);
  const shown = await timeline(page)
    .getByRole('button', { name: /^Command/ })
    .count();
  await page.reload();
  await timeline(page).getByText('two', { exact: true }).waitFor();
  assert.equal(
    await timeline(page)
      .getByRole('button', { name: /^Command/ })
      .count(),
    shown,
  );
});

await step('a long conversation opens at its end, and older events come while scrolling up', async (go) => {
  // Summaries would replace messages that the scripted model has to read.
  await api('POST', '/api/v1/settings', { agent_settings_diff: { condenser: { enabled: false } } });
  const page = await go();
  const lines = (from) => Array.from({ length: 25 }, (_, n) => `run: echo line-${from + n}`);
  await begin(page, [...lines(0), 'finish: end-0'].join('\n'));
  for (let from = 25; from <= 75; from += 25) {
    await timeline(page)
      .getByText(`end-${from - 25}`, { exact: true })
      .waitFor();
    await message(page, [...lines(from), `finish: ${from === 75 ? 'the last' : `end-${from}`}`].join('\n'));
  }
  await timeline(page).getByText('the last', { exact: true }).waitFor();
  await page.reload();
  await timeline(page).getByText('the last', { exact: true }).waitFor();
  assert.ok(
    (await timeline(page)
      .getByRole('button', { name: /^Command/ })
      .count()) < 60,
    'only what is visible is there',
  );
  await timeline(page).hover();
  for (
    let i = 0;
    i < 120 &&
    (await timeline(page)
      .getByRole('button', { name: 'Command echo line-0', exact: false })
      .filter({ hasText: /line-0$/ })
      .count()) === 0;
    i++
  ) {
    await page.mouse.wheel(0, -700);
    await page.waitForTimeout(60);
  }
  await timeline(page)
    .getByRole('button')
    .filter({ hasText: /line-0$/ })
    .waitFor();
  const seen = await timeline(page)
    .getByRole('button', { name: /^Command/ })
    .allInnerTexts();
  assert.equal(new Set(seen).size, seen.length, 'no step is there twice');
});

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

await step('a fork goes on from an event', async (go) => {
  const page = await go();
  const id = await begin(page, 'run: echo a-$((1+1))\nfinish: first end');
  await timeline(page).getByText('first end', { exact: true }).waitFor();
  await message(page, 'finish: second end');
  await timeline(page).getByText('second end', { exact: true }).waitFor();
  await timeline(page).getByText('first end', { exact: true }).hover();
  await timeline(page)
    .getByRole('article', { name: 'Agent' })
    .filter({ hasText: 'first end' })
    .getByRole('button', { name: 'Continue from here' })
    .click();
  await page.waitForURL((to) => /#\/c\/[0-9a-f]{32}/.test(to.hash) && !to.hash.includes(id));
  await timeline(page).getByText('first end', { exact: true }).waitFor();
  assert.equal(await timeline(page).getByText('second end', { exact: true }).count(), 0);
  await message(page, 'finish: other end');
  await timeline(page).getByText('other end', { exact: true }).waitFor();
});

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

/** An MCP server with one tool that takes one token. */
async function toolServer(token) {
  const answers = {
    initialize: (params) => ({
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'tools', version: '1' },
    }),
    'tools/list': () => ({ tools: [{ name: 'weather_report', description: 'd', inputSchema: { type: 'object' } }] }),
  };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    if (request.headers.authorization !== `Bearer ${token}`) return response.writeHead(401).end('who are you?');
    const call = request.method === 'POST' ? JSON.parse(body) : {};
    if (!answers[call.method]) return response.writeHead(call.method ? 202 : 405).end();
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: answers[call.method](call.params) }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { address: `http://127.0.0.1:${server.address().port}/mcp`, close: () => server.close() };
}

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
  await form.getByLabel('Environment variables: Value 1').fill('/work');
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
  await api('POST', '/api/v1/settings', { agent_settings_diff: { llm: null } }); // the demo's again
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

await step('beside a conversation: cost, network, ports and sub-agents', async (go) => {
  await api('POST', '/api/v1/settings', { agent_settings_diff: { enable_sub_agents: true } });
  const page = await go();
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const task = { prompt: 'finish: looked', description: 'look around' };
  const serve = `echo preview-works > index.html; python3 -m http.server ${port} >/dev/null 2>&1 &`;
  await begin(
    page,
    `run: ${serve}\nrun: curl -sS -m 5 http://10.255.0.1/; true\ntool: task ${JSON.stringify(task)}\nfinish: all given`,
  );
  await timeline(page).getByText('all given', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Actions', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Cost, network' }).click();
  const dialog = page.getByRole('dialog', { name: 'Details' });
  await dialog.getByRole('img', { name: 'Tokens read and written' }).waitFor();
  await dialog.getByText('Every call').click();
  assert.equal(await dialog.getByRole('row').count(), 5); // a head, three steps and the end
  await accessible(page, 'cost');
  await dialog.getByRole('tab', { name: 'Network' }).click();
  await dialog.getByText('10.255.0.1:80').waitFor();
  await accessible(page, 'network');
  await dialog.getByLabel('Outcome').selectOption('allowed');
  await dialog.getByText('No connection is like that.').waitFor();
  await dialog.getByRole('tab', { name: 'Ports' }).click();
  const [preview] = await Promise.all([
    page.context().waitForEvent('page'),
    dialog.getByRole('button', { name: `Open: Port ${port}` }).click(),
  ]);
  await preview.getByText('preview-works').waitFor();
  assert.equal(await preview.evaluate('window.opener'), null);
  await preview.close();
  await accessible(page, 'ports');
  await page.setViewportSize({ width: 360, height: 740 });
  for (const tab of ['Cost', 'Network', 'Ports', 'Agents']) {
    await dialog.getByRole('tab', { name: tab }).click();
    assert.ok(await dialog.evaluate((each) => each.scrollWidth <= each.clientWidth), `${tab} is too wide`);
  }
  await dialog.getByRole('link', { name: /look around/ }).waitFor();
  await accessible(page, 'sub-agents');
  await dialog.getByRole('link', { name: /look around/ }).click();
  await timeline(page).getByText('looked', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'Part of another conversation' }).click();
  await timeline(page).getByText('all given', { exact: true }).waitFor();
  await timeline(page)
    .getByRole('button', { name: /look around/ })
    .click();
  await timeline(page).getByRole('link', { name: 'Conversation of the sub-agent' }).click();
  await timeline(page).getByText('looked', { exact: true }).waitFor();
});

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

await browser.close();
replies.close();
say({ do: 'end' });
