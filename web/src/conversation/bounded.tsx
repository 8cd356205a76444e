// What is long is shown in part, and more of it on demand: nothing may hold up the page.
import { createContext, type ReactNode, useContext, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { bytes } from '../lib/format';
import { Button } from '../ui/Button';
import { Code } from './Code';

/** Whether long texts are shown whole, because somebody consents to them. */
export const Whole = createContext(false);

const first = 12_000; // characters
const further = 100_000;

/** Where the first part of a text ends: after a line, if there is one near. */
export function cut(text: string, size: number): number {
  if (text.length <= size + size / 4) return text.length;
  const line = text.lastIndexOf('\n', size);
  if (line > size / 2) return line;
  // Not between the halves of a character.
  return /[\ud800-\udbff]/.test(text[size - 1] ?? '') ? size - 1 : size;
}

/** The first part of a text, and a button for more. */
export function useBounded(text: string, size = first): [string, ReactNode] {
  const { t, i18n } = useTranslation();
  const whole = useContext(Whole);
  const [limit, setLimit] = useState(size);
  const end = whole ? text.length : cut(text, limit);
  if (end === text.length) return [text, null];
  return [
    text.slice(0, end),
    <p key="more" className="mt-1">
      <Button small kind="quiet" onClick={() => setLimit(limit + further)}>
        {t('more.text', { size: bytes(text.length - end, i18n.language) })}
      </Button>
    </p>,
  ];
}

export function BoundedCode({ text, language }: { text: string; language: string }) {
  const [part, more] = useBounded(text);
  return (
    <>
      <Code text={part} language={language} copied={text} />
      {more}
    </>
  );
}

export function BoundedText({ text, className }: { text: string; className: string }) {
  const [part, more] = useBounded(text);
  return (
    <>
      <p className={className}>{part}</p>
      {more}
    </>
  );
}

const blank = /^\s*$/;
const fence = /^ {0,3}(`{3,}|~{3,})/;
const largest = 8 * 2000;

/**
 * Cuts a long Markdown text between its blocks into parts of about size characters.
 * What was cut stays as the text grows, so that parts that are shown need not be read again.
 */
export function markdownParts(text: string, size = 2000): string[] {
  const parts: string[] = [];
  let from = 0; // of the part
  let open = ''; // the fence of a code block
  let afterBlank = false;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at) + 1 || text.length;
    const line = text.slice(at, Math.min(end, at + 200)); // the begin tells
    const mark = fence.exec(line)?.[1] ?? '';
    const long = at - from >= size;
    // What is indented goes on with a list. A block that never ends is cut all the same.
    if (open === '' && ((long && afterBlank && !/^\s/.test(line)) || at - from >= largest)) {
      parts.push(text.slice(from, at));
      from = at;
    }
    if (open === '') open = mark;
    else if (mark.startsWith(open) && blank.test(line.trimStart().slice(mark.length))) open = '';
    afterBlank = blank.test(line);
    at = end;
  }
  parts.push(text.slice(from));
  return parts;
}
