// A session of the published web UI in a browser, against an agent server: see
// compat_test.go for what it prints. The page comes from an address of its own, so
// that the browser asks the server before each request whether it may.
import { strict as assert } from 'node:assert';
import { createReadStream, existsSync, statSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const host = process.env.COMPAT_HOST;
const apiKey = process.env.COMPAT_KEY;
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const patience = 15000;

// What the UI asks for and copes without.
const refusalsKnown = [
  [404, /^\/api\/automation\//], // a service of its own
  [404, /^\/api\/canvas-extensions\/installed$/],
  [501, /^\/api\/plugins\/installed$/], // not built
];

async function step(name, work) {
  try {
    await work();
    say({ step: name, status: 'ok' });
  } catch (error) {
    say({ step: name, status: 'failed', detail: `${error?.stack ?? error}` });
  }
}

async function eventually(what, ok) {
  for (const end = Date.now() + patience; Date.now() < end; await delay(50)) {
    const got = await ok();
    if (got) return got;
  }
  throw new Error(`waited in vain for ${what}`);
}

async function api(method, route, body) {
  const headers = { 'X-Session-API-Key': apiKey, 'Content-Type': 'application/json' };
  const answer = await fetch(host + route, { method, headers, body: body && JSON.stringify(body) });
  return { status: answer.status, body: await answer.json().catch(() => null) };
}

// serve serves the UI's files; what is no file is the page.
async function serve() {
  const root = fileURLToPath(new URL('node_modules/@openhands/agent-canvas/build', import.meta.url));
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml' };
  const server = http.createServer((request, response) => {
    let file = path.join(root, new URL(request.url, 'http://page').pathname);
    if (!existsSync(file) || statSync(file).isDirectory()) file = path.join(root, 'index.html');
    response.setHeader('Content-Type', types[path.extname(file)] ?? 'application/octet-stream');
    createReadStream(file).pipe(response);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return server;
}

const refusals = []; // answers of the server that are no 2xx
const breaks = []; // requests that had no answer, and errors of the page
const frames = []; // what the event socket brought
const asked = new Set(); // requests that succeeded

function watch(page) {
  page.on('response', async (response) => {
    const request = response.request();
    if (!response.url().startsWith(host) || request.method() === 'OPTIONS') return;
    const route = new URL(response.url()).pathname;
    if (response.ok()) asked.add(`${request.method()} ${route}`);
    else {
      const refusal = { status: response.status(), method: request.method(), route, sent: request.postData()?.slice(0, 500) };
      refusals.push(refusal);
      refusal.answer = await response.text().catch(() => '');
    }
  });
  page.on('requestfailed', (request) => {
    // One that the page gave up itself is none.
    if (request.url().startsWith(host) && request.failure()?.errorText !== 'net::ERR_ABORTED') breaks.push(`${request.url()}: ${request.failure()?.errorText}`);
  });
  page.on('pageerror', (error) => breaks.push(String(error)));
  page.on('websocket', (socket) => {
    if (!socket.url().includes('/sockets/events/')) return;
    socket.on('framereceived', ({ payload }) => frames.push(JSON.parse(payload)));
  });
}

// prepare is what a user has done before: named the backend, and closed the tour.
function prepare([backend, key]) {
  localStorage.setItem('openhands-backends', JSON.stringify([{ id: 'parley', name: 'Parley', host: backend, apiKey: key, kind: 'local' }]));
  localStorage.setItem('openhands-active-backend', JSON.stringify({ backendId: 'parley', orgId: null }));
  localStorage.setItem('openhands-onboarded', '1');
  localStorage.setItem('openhands-telemetry-consent', 'denied');
  window.__AGENT_CANVAS_DO_NOT_TRACK__ = true;
}

const files = await serve();
// In a container the browser cannot make a sandbox of its own. Nothing but the server
// and the page has an address.
const browser = await chromium.launch({ executablePath: process.env.COMPAT_BROWSER,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'] });
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(patience);
await page.addInitScript(prepare, [host, apiKey]);
watch(page);

const home = `http://127.0.0.1:${files.address().port}/`;
const chat = page.getByTestId('chat-scroll-container');
const answered = (text) => chat.getByTestId('agent-message').getByText(text, { exact: true });
const status = async () => (await api('GET', `/api/conversations/${id}`)).body.execution_status;
let id = '';

async function type(text) {
  await page.getByTestId('chat-input').first().click();
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
}

await step('a model by profile', async () => {
  const llm = { model: 'openai/test-model', base_url: process.env.COMPAT_MODEL, api_key: 'sk-of-the-profile' };
  assert.equal((await api('POST', '/api/profiles/main', { llm, include_secrets: true })).status, 201);
  assert.equal((await api('POST', '/api/profiles/main/activate')).status, 200);
});

await step('load', async () => {
  await page.goto(home);
  await page.getByRole('button', { name: 'Confirm preferences' }).click(); // nothing is sent to anyone
  await page.getByTestId('chat-input-llm-profile').first().getByText('main').waitFor();
});

await step('a conversation with a tool call', async () => {
  await type('run echo one-$((40+2)) | tee made.txt');
  await page.waitForURL(/\/conversations\/[0-9a-f-]{36}/);
  id = new URL(page.url()).pathname.split('/').pop();
  await answered('It is done.').waitFor();
  await chat.getByTestId('generic-event-message-title').getByRole('button').first().click(); // opens what the command wrote
  await chat.getByText('one-42').first().waitFor();
  assert.equal(await status(), 'finished');
});

await step('an answer in pieces', async () => {
  const before = frames.length;
  const whole = 'Slowly said: one word after the other until the very end';
  await type(whole.replace('Slowly said:', 'slowly'));
  await eventually('its beginning', async () => {
    const text = await chat.innerText();
    assert.ok(!text.includes(whole), 'the answer was there at once');
    return text.includes('Slowly said:');
  });
  await answered(whole).waitFor();
  const pieces = frames.slice(before).filter((f) => f.kind === 'StreamingDeltaEvent').map((f) => f.content);
  assert.ok(pieces.length > 1 && whole.startsWith(pieces.join('')), JSON.stringify(pieces));
  await eventually('the end', async () => (await status()) === 'finished');
  assert.equal(await answered(whole).count(), 1);
});

await step('stop and go on', async () => {
  await type('wait');
  await eventually('the run', async () => (await status()) === 'running');
  await page.getByTestId('stop-button').first().click();
  await eventually('the interruption', () => frames.some((f) => f.kind === 'InterruptEvent'));
  await eventually('the pause', async () => (await status()) === 'paused');
  await page.getByText('Stopped', { exact: true }).first().waitFor();
  await type('back again');
  await answered('You said: back again').waitFor();
});

await step('reload', async () => {
  await page.reload();
  await answered('You said: back again').waitFor();
  for (const text of ['It is done.', 'Slowly said: one word after the other until the very end', 'You said: back again']) assert.equal(await answered(text).count(), 1, text);
  assert.equal(await chat.getByTestId('user-message').count(), 4);
});

await step('files and changes', async () => {
  await page.getByTestId('right-panel-toggle').first().click();
  await page.getByTestId('file-tree-file-made.txt').click();
  await page.getByTestId('files-tab-content').getByText('one-42').first().waitFor();
  await page.getByTestId('conversation-tab-commits').first().click();
  await eventually('the commits', () => asked.has('GET /api/git/commits'));
  await page.getByTestId('conversation-tab-terminal').first().click();
  await page.getByTestId('conversation-overview-toggle').first().click();
  await page.getByTestId('conversation-overview-diffs-additions').waitFor();
  await eventually('the changes', () => asked.has('GET /api/git/changes') && asked.has('GET /api/git/diff'));
});

await step('delete', async () => {
  await page.getByTestId('conversation-card').first().hover();
  await page.getByTestId('conversation-card').first().getByTestId('ellipsis-button').click();
  await page.getByTestId('delete-button').first().click();
  await page.getByRole('button', { name: 'Confirm Delete' }).click();
  await eventually('the end of it', async () => (await api('GET', `/api/conversations/${id}`)).status === 404);
  await page.getByTestId('conversation-panel-empty-state').waitFor();
});

await step('nothing else was refused', async () => {
  const gone = (r) => r.status === 404 && r.route.startsWith(`/api/conversations/${id}`); // a poll that came late
  const odd = refusals.filter((r) => !gone(r) && !refusalsKnown.some(([code, route]) => r.status === code && route.test(r.route)));
  assert.deepEqual(odd, []);
  assert.deepEqual(breaks, []);
});

await browser.close();
files.closeAllConnections();
files.close();
say({ do: 'end' });
