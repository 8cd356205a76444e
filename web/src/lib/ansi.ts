// biome-ignore-all lint/suspicious/noControlCharactersInRegex: these are what it looks for
// Terminal output as runs of text with classes. Colours become classes, because the
// page's policy allows no inline styles; what moves the cursor is left out.

export interface Run {
  text: string;
  classes: string;
}

interface Style {
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  colour: number | null;
}

const plain: Style = { bold: false, dim: false, italic: false, underline: false, colour: null };

// CSI, OSC and other escape sequences, and control characters but tab and line breaks.
const sequence =
  /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

function classesOf(style: Style): string {
  const names: string[] = [];
  if (style.bold) names.push('ansi-bold');
  if (style.dim) names.push('ansi-dim');
  if (style.italic) names.push('ansi-italic');
  if (style.underline) names.push('ansi-underline');
  if (style.colour !== null) names.push(`ansi-${style.colour}`);
  return names.join(' ');
}

function apply(style: Style, codes: number[]): Style {
  let next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 0) next = { ...plain };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 90 + 8;
    else if (code === 39) next.colour = null;
    else if (code === 38 || code === 48) {
      const kind = codes[i + 1];
      const value = codes[i + 2] ?? 0;
      if (code === 38 && kind === 5) next.colour = value < 16 ? value : null;
      i += kind === 5 ? 2 : kind === 2 ? 4 : 0;
    }
  }
  return next;
}

/** What a carriage return leaves of a line: the last thing written over it. */
function settle(text: string): string {
  return text
    .split('\n')
    .map((line) => {
      let end = line.length;
      while (line[end - 1] === '\r') end--;
      return line.slice(end === 0 ? 0 : line.lastIndexOf('\r', end - 1) + 1, end);
    })
    .join('\n');
}

export function parseAnsi(text: string): Run[] {
  const runs: Run[] = [];
  const source = settle(text);
  let style = plain;
  let from = 0;
  const push = (part: string) => {
    if (part === '') return;
    const classes = classesOf(style);
    const last = runs.at(-1);
    if (last && last.classes === classes) last.text += part;
    else runs.push({ text: part, classes });
  };
  for (const match of source.matchAll(sequence)) {
    push(source.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === 'm')
      style = apply(
        style,
        (match[1] ?? '').split(/[;:]/).map((code) => Number.parseInt(code, 10) || 0),
      );
  }
  push(source.slice(from));
  return runs;
}
