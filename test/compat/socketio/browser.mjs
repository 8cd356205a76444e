// The steps of protocol.mjs in a browser, on a page of another origin, with the
// library as it is published for pages. What the browser complains about is a
// failure: requests that are refused or come to nothing, errors on the page.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { chromium } from 'playwright-core';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const read = (name) => readFileSync(new URL(name, import.meta.url));
const files = {
  '/': ['text/html', '<!doctype html><link rel="icon" href="data:,"><script src="/socket.io.js"></script>'],
  '/socket.io.js': ['text/javascript', read('node_modules/socket.io-client/dist/socket.io.min.js')],
  '/protocol.mjs': ['text/javascript', read('protocol.mjs')],
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
  if (line.step && line.status === 'ok' && complaints.length > 0) {
    line.status = 'failed';
    line.detail = complaints.slice(0, 5).join('\n');
  }
  if (line.step) complaints = [];
  if (!line.do) say(line);
});
await page.evaluate(async (host) => {
  const { run } = await import('/protocol.mjs');
  await run(window.io, host, window.say);
}, process.env.COMPAT_HOST);
say({ step: 'nothing is left to complain about', status: complaints.length ? 'failed' : 'ok', detail: complaints.join('\n') });
await browser.close();
server.close();
say({ do: 'end' });
process.exit();
