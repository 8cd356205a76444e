// What the steps of a session share: a browser, the server's API, and what is printed
// (see test/webui/webui_test.go).
import { strict as assert } from 'node:assert';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import readline from 'node:readline';
import { chromium } from 'playwright-core';

export const { WEBUI_URL: url, WEBUI_PROXY: proxied, WEBUI_KEY: key, WEBUI_BROWSER: executablePath } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const replies = readline.createInterface({ input: process.stdin });
const patience = 60_000; // machines are shared

export async function please(what, more = {}) {
  say({ do: what, ...more });
  await once(replies, 'line');
}

export async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`);
  return answer.json();
}

export const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
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

export async function step(name, work) {
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
export async function accessible(page, where) {
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

export async function begin(page, text) {
  await page.goto(`${page.url().split('#')[0]}#/new`);
  const box = page.getByLabel('First message');
  await box.fill(text);
  await box.press('Enter');
  await page.waitForURL(/#\/c\/[0-9a-f]{32}/);
  return /#\/c\/([0-9a-f]{32})/.exec(page.url())[1];
}

export async function message(page, text) {
  const box = page.getByRole('textbox', { name: 'Message', exact: true });
  await box.fill(text);
  await box.press('Enter');
}

export const timeline = (page) => page.getByRole('region', { name: 'Timeline' });
export const status = (page, text) =>
  page.getByRole('status').filter({ hasText: text }).first().waitFor({ state: 'attached' });

/** Says that all steps were done. */
export async function end() {
  await browser.close();
  replies.close();
  say({ do: 'end' });
}
