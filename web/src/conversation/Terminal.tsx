import { memo, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { parseAnsi } from '../lib/ansi';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { CopyButton } from './CopyButton';

const shownLines = 40;

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
  const { t } = useTranslation();
  const [all, setAll] = useState(false);
  const lines = useMemo(() => output.replace(/\s+$/, '').split('\n'), [output]);
  const hidden = all ? 0 : Math.max(0, lines.length - shownLines);
  // The end says how it went.
  const runs = useMemo(() => parseAnsi(lines.slice(hidden).join('\n')), [lines, hidden]);
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
      {hidden > 0 && (
        <div className="border-b border-line px-2 py-1 font-sans">
          <Button small kind="quiet" onClick={() => setAll(true)}>
            {t('terminal.more', { count: hidden })}
          </Button>
        </div>
      )}
      {lines.join('') !== '' && (
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
