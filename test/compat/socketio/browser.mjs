// The steps of protocol.mjs or rooms.mjs in a browser, on a page of another origin,
// with the library as it is published for pages. What the browser complains about is
// a failure: requests that are refused or come to nothing, errors on the page.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const replies = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = (name) => readFileSync(new URL(name, import.meta.url));
const session = `/${process.env.COMPAT_SESSION}.mjs`;
const files = {
  '/': ['text/html', '<!doctype html><link rel="icon" href="data:,"><script src="/socket.io.js"></script>'],
  '/socket.io.js': ['text/javascript', read('node_modules/socket.io-client/dist/socket.io.min.js')],
  [session]: ['text/javascript', read(`.${session}`)],
};
const server = http.createServer((request, response) => {
  const [type, text] = files[request.url] ?? ['text/plain', null];
  response.writeHead(text === null ? 404 : 200, { 'Content-Type': type });
  response.end(text);
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));

const browser = await chromium.launch({ executablePath: process.env.COMPAT_BROWSER,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'] });
const page = await browser.newPage();
let complaints = [];
page.on('response', (response) => {
  if (!response.ok() && response.status() !== 101) complaints.push(`${response.request().method()} ${response.url()}: ${response.status()}`);
});
page.on('requestfailed', (request) => {
  // One that the page gave up itself is none.
  if (request.failure()?.errorText !== 'net::ERR_ABORTED') complaints.push(`${request.method()} ${request.url()}: ${request.failure()?.errorText}`);
});
page.on('pageerror', (error) => complaints.push(String(error)));
await page.goto(`http://127.0.0.1:${server.address().port}/`);

// What is complained about belongs to the step that has just ended.
await page.exposeFunction('say', (line) => {
  if (line.status === 'ok' && complaints.length > 0) {
    line.status = 'failed';
    line.detail = complaints.slice(0, 5).join('\n');
  }
  complaints = [];
  say(line);
});
await page.exposeFunction('restart', async () => {
  say({ do: 'restart' });
  await replies.next();
});
const env = { host: process.env.COMPAT_HOST, key: process.env.COMPAT_KEY, model: process.env.COMPAT_MODEL };
await page.evaluate(async ([session, env]) => {
  const { run } = await import(session);
  await run(window.io, env, window.say, window.restart);
}, [session, env]);
say({ step: 'nothing is left to complain about', status: complaints.length ? 'failed' : 'ok', detail: complaints.join('\n') });
await browser.close();
server.close();
say({ do: 'end' });
process.exit();
