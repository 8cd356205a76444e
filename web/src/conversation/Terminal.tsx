import { memo, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { parseAnsi } from '../lib/ansi';
import { bytes } from '../lib/format';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { CopyButton } from './CopyButton';

// What is shown of an output: its end, which says how it went, and more each time.
const first = { lines: 40, characters: 12_000 };
const further = { lines: 1000, characters: 100_000 };

/** Where the last lines of a text begin; within a line, if they are too long. */
export function tailOf(text: string, lines: number, characters: number): number {
  let at = text.length;
  for (let n = 0; n < lines; n++) {
    at = text.lastIndexOf('\n', at - 1);
    if (at <= 0) return Math.max(0, text.length - characters);
  }
  return Math.max(at + 1, text.length - characters);
}

function countLines(text: string, end: number): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

/** A command and what it printed, colours included. */
export const Terminal = memo(function Terminal({
  command,
  output,
  exitCode,
}: {
  command: string;
  output: string;
  exitCode: number | null;
}) {
  const { t, i18n } = useTranslation();
  const [more, setMore] = useState(0);
  const text = useMemo(() => output.trimEnd(), [output]);
  const from = useMemo(
    () => tailOf(text, first.lines + more * further.lines, first.characters + more * further.characters),
    [text, more],
  );
  const hidden = useMemo(() => countLines(text, from), [text, from]);
  const runs = useMemo(() => parseAnsi(text.slice(from)), [text, from]);
  return (
    <div className="group/code relative overflow-hidden rounded-md border border-line bg-sunken font-mono text-[13px] leading-normal">
      {command !== '' && (
        <pre className="border-b border-line px-3 py-2 whitespace-pre-wrap [overflow-wrap:anywhere]">
          <span aria-hidden className="text-accent-text select-none">
            ${' '}
          </span>
          {visible(command)}
        </pre>
      )}
      {from > 0 && (
        <div className="border-b border-line px-2 py-1 font-sans">
          <Button small kind="quiet" onClick={() => setMore(more + 1)}>
            {hidden > 0 ? t('terminal.more', { count: hidden }) : t('more.text', { size: bytes(from, i18n.language) })}
          </Button>
        </div>
      )}
      {text !== '' && (
        <pre tabIndex={0} className="max-h-[32rem] overflow-auto px-3 py-2 focus-visible:-outline-offset-2">
          {runs.map((run, i) => (
            <span key={i} className={run.classes || undefined}>
              {run.text}
            </span>
          ))}
        </pre>
      )}
      {exitCode !== null && exitCode !== 0 && (
        <p className="border-t border-line px-3 py-1 font-sans text-xs text-bad">
          {t('terminal.exit', { code: exitCode })}
        </p>
      )}
      {output !== '' && (
        <CopyButton
          text={output}
          className="absolute top-1 right-1 bg-sunken opacity-0 group-hover/code:opacity-100 focus-visible:opacity-100"
        />
      )}
    </div>
  );
});
