import clsx from 'clsx';
import { structuredPatch } from 'diff';
import { memo, useMemo } from 'react';
import { useTranslation } from 'react-i18next';
import { visible } from '../lib/visible';

interface Line {
  sign: '+' | '-' | ' ' | '@';
  text: string;
  before: number | null;
  after: number | null;
}

// Longer texts take the browser too long to compare.
const longest = 400_000;
const most = 2000; // lines that are shown

export function diffLines(before: string, after: string): Line[] | null {
  if (before.length + after.length > longest) return null;
  const patch = structuredPatch('a', 'b', before, after, '', '', { context: 3, timeout: 500 });
  if (!patch) return null;
  const out: Line[] = [];
  patch.hunks.forEach((hunk, i) => {
    if (i > 0) out.push({ sign: '@', text: '', before: null, after: null });
    let a = hunk.oldStart;
    let b = hunk.newStart;
    for (const line of hunk.lines) {
      const sign = line[0];
      const text = line.slice(1);
      if (sign === '+') out.push({ sign, text, before: null, after: b++ });
      else if (sign === '-') out.push({ sign, text, before: a++, after: null });
      else if (sign === ' ') out.push({ sign, text, before: a++, after: b++ });
    }
  });
  return out;
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
  const lines = useMemo(() => diffLines(before, after), [before, after]);
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
          {lines.slice(0, most).map((line, i) => (
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
      {lines.length > most && (
        <p className="px-3 py-1 font-sans text-[13px] text-warn">{t('diff.more', { count: lines.length - most })}</p>
      )}
    </section>
  );
});
