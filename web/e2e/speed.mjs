// How fast a long conversation is in a browser: test/bench runs it and prints what it
// says. Not a test: machines are shared.
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const { WEBUI_URL: url, WEBUI_KEY: key, WEBUI_BROWSER: executablePath, WEBUI_ID: id } = process.env;
const rounds = Number(process.env.WEBUI_ROUNDS ?? 5);
const last = 'The very end';
void createRequire;

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--enable-precise-memory-info'] });

async function api(method, path, body) {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const answer = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// What runs in the page before anything else: notes when the text is there, and tasks
// that keep the page from drawing.
function watch(text) {
  const seen = { at: 0, tasks: [] };
  window.seen = seen;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) seen.tasks.push(Math.round(each.duration));
  }).observe({ type: 'longtask', buffered: true });
  window.waitText = (wanted, root = document) =>
    new Promise((done) => {
      const look = () => {
        const area = root.querySelector('main section[tabindex="0"]');
        if (area?.textContent.includes(wanted)) {
          // In the frame after the one that has it, it has been drawn.
          requestAnimationFrame(() => setTimeout(() => done(performance.now())));
          return;
        }
        requestAnimationFrame(look);
      };
      look();
    });
  window.opened = window.waitText(text);
}

async function fresh() {
  const context = await browser.newContext({ locale: 'en-US', viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(120_000);
  await context.addInitScript(([name, value]) => localStorage.setItem(name, value), ['parley:/:key', key]);
  return context;
}

async function cold(at = `${url}/#/c/${id}`, text = last) {
  const context = await fresh();
  const page = await context.newPage();
  await page.addInitScript(watch, text);
  const requests = [];
  page.on('request', (request) => requests.push(new URL(request.url()).pathname));
  await page.goto(at);
  const ms = await page.evaluate('window.opened');
  const seen = await page.evaluate('window.seen');
  const rows = await page.locator('main section[tabindex="0"] [data-index]').count();
  return { page, context, ms, tasks: seen.tasks, requests, rows };
}

async function warm(page) {
  await page.goto(`${url}/#/new`);
  await page.waitForTimeout(300);
  return page.evaluate(
    async ([to, text]) => {
      const link = [...document.querySelectorAll('aside a')].find((each) => each.getAttribute('href') === to);
      const from = performance.now();
      link.click();
      return (await window.waitText(text)) - from;
    },
    [`#/c/${id}`, last],
  );
}

// Scrolls as a hand does on a wheel, and notes the time between frames.
function scroll(page, pixels, most) {
  return page.evaluate(
    async ([step, limit]) => {
      const area = document.querySelector('main section[tabindex="0"]');
      const frames = [];
      let before = performance.now();
      const began = before;
      let stuck = 0;
      window.seen.tasks.length = 0;
      while (performance.now() - began < limit) {
        await new Promise((done) => requestAnimationFrame(done));
        const now = performance.now();
        frames.push(now - before);
        before = now;
        const was = area.scrollTop;
        area.scrollTop = was - step;
        stuck = was === 0 ? stuck + 1 : 0;
        if (stuck > 90) break;
      }
      return { frames, seconds: (performance.now() - began) / 1000, top: area.scrollTop, height: area.scrollHeight };
    },
    [pixels, most],
  );
}

const heap = async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize / 2 ** 20;
};
const sorted = (list) => [...list].sort((a, b) => a - b);
const median = (list) => sorted(list)[Math.floor(list.length / 2)];
const at = (list, part) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * part))];

const out = {};
const colds = [];
let requests = [];
for (let i = 0; i < rounds + 1; i++) {
  const got = await cold();
  if (i > 0) colds.push(got.ms); // the first one wakes everybody up
  requests = got.requests;
  out.rows = got.rows;
  out.coldTasks = got.tasks;
  await got.context.close();
}
out.cold = colds;
out.coldMedian = median(colds);
out.requests = requests.length;
out.paths = requests;

{
  const got = await cold();
  const warms = [];
  for (let i = 0; i < rounds + 1; i++) warms.push(await warm(got.page));
  out.warm = warms.slice(1);
  out.warmMedian = median(out.warm);
  out.heapOpened = await heap(got.page);
  const run = await scroll(got.page, 300, Number(process.env.WEBUI_SCROLL ?? 120_000));
  out.scroll = {
    seconds: run.seconds,
    frames: run.frames.length,
    p50: at(run.frames, 0.5),
    p99: at(run.frames, 0.99),
    worst: at(run.frames, 1),
    over50: run.frames.filter((each) => each > 50).length,
    height: run.height,
    top: run.top,
  };
  out.scrollTasks = await got.page.evaluate('[window.seen.tasks.length, Math.max(0, ...window.seen.tasks)]');
  out.beginning = await got.page.locator('main section').getByText('begun').count();
  out.heapAll = await heap(got.page);
  // A live event while all of it is there.
  await got.page.evaluate(() => {
    const area = document.querySelector('main section[tabindex="0"]');
    area.scrollTop = area.scrollHeight;
    setTimeout(() => {
      area.scrollTop = area.scrollHeight;
    }, 200);
  });
  await got.page.waitForTimeout(600);
  const live = [];
  for (let i = 0; i < rounds; i++) {
    const text = `live-${Date.now()}-${i}`;
    const from = await got.page.evaluate((wanted) => {
      window.seen.tasks.length = 0;
      window.live = window.waitText(wanted);
      return performance.timeOrigin + performance.now();
    }, text);
    await api('POST', `/api/v1/app-conversations/${id}/send-message`, {
      role: 'user',
      content: [{ type: 'text', text }],
      run: false,
    });
    const there = await got.page.evaluate(async () => performance.timeOrigin + (await window.live));
    live.push(there - from);
  }
  out.live = live;
  out.liveTasks = await got.page.evaluate('window.seen.tasks');
  await got.context.close();
}
{
  // An event in the middle.
  const jumps = [];
  for (let i = 0; i < 3; i++) {
    const got = await cold(`${url}/#/c/${id}?event=${process.env.WEBUI_EVENT}`, process.env.WEBUI_EVENT_TEXT);
    jumps.push({ ms: got.ms, requests: got.requests.length, longest: Math.max(0, ...got.tasks) });
    await got.context.close();
  }
  out.jumps = jumps;
}
await browser.close();
process.stdout.write(`${JSON.stringify(out)}\n`);
