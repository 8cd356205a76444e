// How fast a long conversation is in a browser: test/bench runs this and prints what it
// says, as JSON. Not a test: machines are shared.
import { chromium } from 'playwright-core';

const { WEBUI_URL: url, WEBUI_KEY: key, WEBUI_BROWSER: executablePath, WEBUI_ID: id } = process.env;
const rounds = Number(process.env.WEBUI_ROUNDS ?? 7);
const most = Number(process.env.WEBUI_SCROLL ?? 60) * 1000; // of scrolling, in ms
const page = `${url}/#/c/${id}`;
const last = 'The very end';
const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });

async function api(method, path, body) {
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** The first message of a user after a place in the log. */
async function messageAfter(seq) {
  const stop = new AbortController();
  const path = `/api/v1/conversation/${id}/events/stream?after_seq=${seq}`;
  const answer = await fetch(url + path, { headers, signal: stop.signal });
  let got = '';
  for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
    got += text;
    const found = /^data: (\{"kind":"MessageEvent".*"source":"user".*)\n/m.exec(got);
    if (found) {
      stop.abort();
      return JSON.parse(found[1]);
    }
  }
  throw new Error(`${path}: ${answer.status}, no message`);
}

// Runs in the page before anything else: when a text is there, and tasks that kept the
// page from drawing.
function watch(text) {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.tasks.push(Math.round(each.duration));
  }).observe({ type: 'longtask', buffered: true });
  window.area = () => document.querySelector('main section[tabindex="0"]');
  window.shown = (wanted) =>
    new Promise((done) => {
      const look = () => {
        // In the frame after the one that has it, it has been drawn.
        if (window.area()?.textContent.includes(wanted))
          requestAnimationFrame(() => setTimeout(() => done(performance.now())));
        else requestAnimationFrame(look);
      };
      look();
    });
  window.opened = window.shown(text);
}

/** Opens an address in a browser that has been to no page of the server. */
async function cold(at, text) {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(120_000);
  await context.addInitScript(([name, value]) => localStorage.setItem(name, value), ['parley:/:key', key]);
  const tab = await context.newPage();
  await tab.addInitScript(watch, text);
  let requests = 0;
  tab.on('request', () => requests++);
  await tab.goto(at);
  const ms = await tab.evaluate('window.opened');
  return { tab, ms, requests, longest: await tab.evaluate('Math.max(0, ...window.tasks)') };
}

/** From a click in the list. */
async function warm(tab) {
  await tab.goto(`${url}/#/new`);
  await tab.waitForTimeout(300);
  return tab.evaluate(
    async ([to, text]) => {
      const from = performance.now();
      document.querySelector(`aside a[href="${to}"]`).click();
      return (await window.shown(text)) - from;
    },
    [`#/c/${id}`, last],
  );
}

/** Scrolls from the end as far as the time allows; the times between frames. */
function scroll(tab) {
  return tab.evaluate(async (limit) => {
    const area = window.area();
    const frames = [];
    const began = performance.now();
    let before = began;
    for (let still = 0; still < 60 && before - began < limit; ) {
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const now = performance.now();
      frames.push(now - before);
      before = now;
      still = area.scrollTop === 0 ? still + 1 : 0;
      area.scrollTop -= 300;
    }
    return { frames, seconds: (before - began) / 1000, top: area.scrollTop === 0 };
  }, most);
}

/** From sending a message until it is shown at the end. */
async function live(tab, n) {
  const text = `live ${Date.now()} ${n}`;
  const from = await tab.evaluate((wanted) => {
    window.live = window.shown(wanted);
    return performance.now();
  }, text);
  const content = [{ type: 'text', text }];
  await api('POST', `/api/v1/app-conversations/${id}/send-message`, { role: 'user', content, run: false });
  return (await tab.evaluate('window.live')) - from;
}

async function heap(tab) {
  const session = await tab.context().newCDPSession(tab);
  await session.send('HeapProfiler.collectGarbage');
  return (await session.send('Runtime.getHeapUsage')).usedSize / 2 ** 20;
}

/** Measures several times; the first one wakes everybody up. */
async function repeat(times, measure) {
  await measure(0);
  const got = [];
  for (let n = 1; n <= times; n++) got.push(await measure(n));
  return got;
}

const out = {};
const opened = [];
out.cold = await repeat(rounds, async () => {
  const { tab, ...got } = await cold(page, last);
  opened.push(got);
  await tab.context().close();
  return got.ms;
});
out.requests = opened.at(-1).requests;
out.longest = opened.map((each) => each.longest);

const events = await api('GET', `/api/v1/conversation/${id}/events/count`);
const middle = await messageAfter(Math.floor(events / 2));
out.jump = await repeat(3, async () => {
  const { tab, ms } = await cold(`${page}?event=${middle.id}`, middle.llm_message.content[0].text);
  await tab.context().close();
  return ms;
});

const { tab } = await cold(page, last);
out.warm = await repeat(rounds, () => warm(tab));
out.heapOpened = await heap(tab);
const { frames, ...way } = await scroll(tab);
out.frames = frames;
out.scroll = way;
out.heapScrolled = await heap(tab);
await tab.evaluate(() => window.area().focus());
await tab.keyboard.press('End');
await tab.evaluate((text) => window.shown(text), last);
out.live = await repeat(rounds, (n) => live(tab, n));
await browser.close();
process.stdout.write(`${JSON.stringify(out)}\n`);
