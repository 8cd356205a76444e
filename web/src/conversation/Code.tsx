import { memo, type ReactNode, useEffect, useState } from 'react';
import { CopyButton } from './CopyButton';

type Highlighter = (text: string, language: string) => ReactNode;

let highlighter: Highlighter | null = null;
let loading: Promise<void> | null = null;

function load(): Promise<void> {
  loading ??= import('../lib/highlight').then((module) => {
    highlighter = module.highlight;
  });
  return loading;
}

/** Code with its colours, which come when the highlighter is loaded. */
export const Code = memo(function Code({
  text,
  language,
  copied = text,
}: {
  text: string;
  language: string;
  copied?: string; // if only a part is shown
}) {
  const [, setLoaded] = useState(highlighter !== null);
  useEffect(() => {
    let here = true;
    if (highlighter === null) void load().then(() => here && setLoaded(true));
    return () => {
      here = false;
    };
  }, []);
  const coloured = highlighter !== null && text.length < 50_000 ? highlighter(text, language) : text;
  return (
    <div className="group/code relative">
      <pre tabIndex={0}>
        <code>{coloured}</code>
      </pre>
      <CopyButton
        text={copied}
        className="absolute top-1 right-1 bg-sunken opacity-0 group-hover/code:opacity-100 focus-visible:opacity-100"
      />
    </div>
  );
});
