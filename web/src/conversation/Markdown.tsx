import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { BoundedCode, markdownParts, useBounded } from './bounded';

// Texts of models are hostile: HTML in them is shown as text, addresses other than web
// and mail ones are dropped, images are never loaded, and links say where they go.
const components: Components = {
  a: ({ href, children }) => <SafeLink href={href}>{children}</SafeLink>,
  img: ({ src, alt }) => <BlockedImage src={typeof src === 'string' ? src : ''} alt={alt ?? ''} />,
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const language = /language-([\w+-]+)/.exec(className ?? '')?.[1];
    const text = String(children ?? '');
    return language !== undefined || text.includes('\n') ? (
      <BoundedCode text={text.replace(/\n$/, '')} language={language ?? ''} />
    ) : (
      <code>{children}</code>
    );
  },
  // Headings of a message are not headings of the page.
  h1: ({ children }) => <p className="text-lg font-semibold">{children}</p>,
  h2: ({ children }) => <p className="text-base font-semibold">{children}</p>,
  h3: ({ children }) => <p className="font-semibold">{children}</p>,
  h4: ({ children }) => <p className="font-semibold">{children}</p>,
  h5: ({ children }) => <p className="font-semibold">{children}</p>,
  h6: ({ children }) => <p className="font-semibold">{children}</p>,
  input: ({ checked }) => <span aria-hidden>{checked ? '☑ ' : '☐ '}</span>,
};

const plugins = [remarkGfm];

const short = 8000; // characters that are read as one

/** A text of a model. A long one is read in parts, and shown in part at first. */
export function Markdown({ text }: { text: string }) {
  return text.length <= short ? <Part text={text} /> : <Long text={text} />;
}

function Long({ text }: { text: string }) {
  const [part, more] = useBounded(text);
  return (
    <div>
      <Parts text={part} />
      {more}
    </div>
  );
}

function Parts({ text }: { text: string }) {
  const parts = useMemo(() => markdownParts(text), [text]);
  return (
    <div className="space-y-[0.65em]">
      {parts.map((part, i) => (
        <Part key={i} text={part} />
      ))}
    </div>
  );
}

const Part = memo(function Part({ text }: { text: string }) {
  return (
    <div className="prose">
      <ReactMarkdown remarkPlugins={plugins} components={components} urlTransform={safeUrl}>
        {text}
      </ReactMarkdown>
    </div>
  );
});

/** Absolute web and mail addresses; what is relative would point into Parley itself. */
export function safeUrl(url: string): string {
  try {
    const parsed = new URL(url);
    return ['http:', 'https:', 'mailto:'].includes(parsed.protocol) ? parsed.href : '';
  } catch {
    return '';
  }
}

function hostOf(href: string): string {
  const url = new URL(href);
  return url.protocol === 'mailto:' ? url.pathname : url.host;
}

/**
 * Whether a text says itself where its link goes. It has to begin with the place: one that
 * only contains it, as https://good.example/?evil.example does, tells of another one.
 */
export function saysWhere(shown: string, href: string): boolean {
  const host = hostOf(href);
  const place = shown.trim().replace(/^(https?:\/\/|mailto:)/i, '');
  return place === host || (place.startsWith(host) && /^[/?#]/.test(place.slice(host.length)));
}

function SafeLink({ href, children }: { href: string | undefined; children: ReactNode }) {
  if (!href) return <span>{children}</span>;
  const host = hostOf(href);
  return (
    <a
      href={href}
      title={href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      className="text-accent-text underline underline-offset-2"
    >
      {children}
      {!saysWhere(String(children), href) && <span className="text-ink-soft no-underline"> ({host})</span>}
    </a>
  );
}

function BlockedImage({ src, alt }: { src: string; alt: string }) {
  const { t } = useTranslation();
  return (
    <span className="inline-block rounded-md border border-dashed border-line-strong px-2 py-0.5 text-[13px] text-ink-soft">
      {t('timeline.image')} {alt && `“${alt}”`} {src && <SafeLink href={src}>{t('timeline.openImage')}</SafeLink>}
    </span>
  );
}

const pace = 60; // ms between two settings of a growing text

/** Text that grows while it is read: it is set as markdown now and then, however fast it grows. */
export function Streaming({ text }: { text: string }) {
  const [shown, setShown] = useState(text);
  const latest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    latest.current = text;
    timer.current ??= setTimeout(() => {
      timer.current = null;
      setShown(latest.current);
    }, pace);
  }, [text]);
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current);
      timer.current = null;
    },
    [],
  );
  return <Parts text={shown.length > text.length ? text : shown} />;
}
