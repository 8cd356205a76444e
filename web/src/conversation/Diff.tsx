import clsx from 'clsx';
import { structuredPatch } from 'diff';
import { memo, useContext, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { Whole } from './bounded';

interface Line {
  sign: '+' | '-' | ' ' | '@';
  text: string;
  before: number | null;
  after: number | null;
}

// Characters that are compared at all, and lines that differ that are compared with
// each other: more take the browser too long.
const longest = 4_000_000;
const hardest = 4000;
const patience = 100; // ms

// Lines that are shown at once: of a step, and where somebody consents to all of it.
const first = 300;
const whole = 2000;

/** The lines that differ, with those around them; null if the texts are too long. */
export function diffLines(before: string, after: string): Line[] | null {
  if (before.length + after.length > longest) return null;
  const a = linesOf(before);
  const b = linesOf(after);
  // Most of a file is as it was: only what lies between is compared.
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  if (head === a.length && head === b.length) return [];
  const from = Math.max(0, head - context);
  const kept = Math.max(0, tail - context); // lines at the end that are left out
  const old = a.slice(from, a.length - kept);
  const now = b.slice(from, b.length - kept);
  const hunks = compare(old, now) ?? [replaced(old, now, head - from, tail - kept)];
  const out: Line[] = [];
  hunks.forEach((hunk, i) => {
    if (i > 0) out.push({ sign: '@', text: '', before: null, after: null });
    addLines(out, hunk, from);
  });
  return out;
}

const context = 3;

interface Hunk {
  oldStart: number;
  newStart: number;
  lines: string[];
}

// With its ends, of which the last may have none.
function linesOf(text: string): string[] {
  return text === '' ? [] : text.split(/(?<=\n)/);
}

function compare(a: string[], b: string[]): Hunk[] | null {
  if (a.length + b.length > hardest) return null;
  return structuredPatch('a', 'b', a.join(''), b.join(''), '', '', { context, timeout: patience })?.hunks ?? null;
}

// All old lines, then all new ones, between those that are the same.
function replaced(a: string[], b: string[], head: number, tail: number): Hunk {
  const bare = (line: string) => line.replace(/\n$/, '');
  const lines = [
    ...a.slice(0, head).map((line) => ` ${bare(line)}`),
    ...a.slice(head, a.length - tail).map((line) => `-${bare(line)}`),
    ...b.slice(head, b.length - tail).map((line) => `+${bare(line)}`),
    ...a.slice(a.length - tail).map((line) => ` ${bare(line)}`),
  ];
  return { oldStart: 1, newStart: 1, lines };
}

function addLines(out: Line[], hunk: Hunk, from: number): void {
  let a = hunk.oldStart + from;
  let b = hunk.newStart + from;
  for (const line of hunk.lines) {
    const sign = line[0];
    const text = line.slice(1);
    if (sign === '+') out.push({ sign, text, before: null, after: b++ });
    else if (sign === '-') out.push({ sign, text, before: a++, after: null });
    else if (sign === ' ') out.push({ sign, text, before: a++, after: b++ });
  }
}

// Of the texts that were compared last: a step shows how many lines it changed, and which.
const compared = new Map<string, Map<string, Line[] | null>>();
let pairs = 0;

/** diffLines, which remembers. */
export function diffOf(before: string, after: string): Line[] | null {
  const known = compared.get(before)?.get(after);
  if (known !== undefined) return known;
  if (++pairs > 200) {
    compared.clear();
    pairs = 1;
  }
  const lines = diffLines(before, after);
  const row = compared.get(before) ?? new Map<string, Line[] | null>();
  compared.set(before, row.set(after, lines));
  return lines;
}

/** How many lines were added and removed. */
export function diffCounts(lines: Line[] | null): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines ?? []) {
    if (line.sign === '+') added++;
    else if (line.sign === '-') removed++;
  }
  return { added, removed };
}

const colours = { '+': 'bg-good-soft', '-': 'bg-bad-soft', ' ': '', '@': 'bg-canvas' };

/** Two versions of a text, as the lines that differ. numbered is false for parts of files. */
export const Diff = memo(function Diff({
  before,
  after,
  numbered = true,
}: {
  before: string;
  after: string;
  numbered?: boolean;
}) {
  const { t } = useTranslation();
  const lines = useMemo(() => diffOf(before, after), [before, after]);
  const [shown, setShown] = useState(useContext(Whole) ? whole : first);
  if (lines === null) return <p className="text-sm text-ink-soft">{t('diff.tooLarge')}</p>;
  if (lines.length === 0) return <p className="text-sm text-ink-soft">{t('diff.none')}</p>;
  return (
    <section
      tabIndex={0}
      aria-label={t('diff.title')}
      className="max-h-[32rem] overflow-auto rounded-md border border-line bg-sunken font-mono text-[13px] leading-normal focus-visible:-outline-offset-2"
    >
      <table className="w-full border-collapse">
        <tbody>
          {lines.slice(0, shown).map((line, i) => (
            <tr key={i} className={colours[line.sign]}>
              {numbered && (
                <>
                  <td className="w-px px-1.5 text-right text-xs text-ink-soft select-none">{line.before}</td>
                  <td className="w-px px-1.5 text-right text-xs text-ink-soft select-none">{line.after}</td>
                </>
              )}
              <td
                className={clsx(
                  'w-px px-1 select-none',
                  line.sign === '+' && 'text-good',
                  line.sign === '-' && 'text-bad',
                )}
              >
                {line.sign === '@' ? '⋯' : line.sign}
              </td>
              <td className="pr-3 whitespace-pre">{visible(line.text) || ' '}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > shown && (
        <p className="px-2 py-1 font-sans">
          <Button small kind="quiet" onClick={() => setShown(shown + 1000)}>
            {t('diff.more', { count: lines.length - shown })}
          </Button>
        </p>
      )}
    </section>
  );
});
