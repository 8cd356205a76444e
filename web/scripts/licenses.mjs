// What is built into the page is under a licence that asks for no more than a notice.
// Tools that only build and test may also be under the MPL.
import { readFileSync } from 'node:fs';

const free = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'Unlicense', 'CC0-1.0']);
const tools = new Set([...free, 'MPL-2.0', 'BlueOak-1.0.0', 'CC-BY-4.0', 'Python-2.0', 'MIT-0']);
const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'));
const wrong = [];
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '') continue;
  const allowed = entry.dev || entry.devOptional ? tools : free;
  const names = (entry.license ?? 'none').replace(/[()]/g, '').split(' OR ');
  const ok = names.some((name) => name.split(' AND ').every((each) => allowed.has(each)));
  if (!ok) wrong.push(`${path}: ${entry.license ?? 'no licence named'}`);
}
if (wrong.length > 0) {
  console.error(`licences that are not on the list:\n${wrong.join('\n')}`);
  process.exit(1);
}
