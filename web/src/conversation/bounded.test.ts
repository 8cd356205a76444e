import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, markdownParts } from './bounded';
import { diffCounts, diffLines } from './Diff';
import { tailOf } from './Terminal';

const lines = fc.array(fc.constantFrom('', 'a', 'b', '  c', '```', '~~~~ts', '- d', '1. e'), { maxLength: 60 });
const text = lines.map((each) => each.join('\n'));

describe('a long Markdown text', () => {
  it('is all there in its parts, and what was cut stays while it grows', () => {
    fc.assert(
      fc.property(text, fc.nat(200), (whole, length) => {
        const parts = markdownParts(whole, 10);
        expect(parts.join('')).toBe(whole);
        const before = markdownParts(whole.slice(0, length), 10);
        expect(parts.slice(0, before.length - 1)).toEqual(before.slice(0, -1));
      }),
    );
  });

  it('is not cut in a block of code or a list', () => {
    const code = `\`\`\`\n${'x\n\n'.repeat(2000)}\`\`\`\n`;
    expect(markdownParts(`a\n\n${code}\nb`, 1)).toEqual(['a\n\n', `${code}\n`, 'b']);
    expect(markdownParts('- a\n\n  b\n\n- c', 1)).toEqual(['- a\n\n  b\n\n', '- c']);
  });
});

describe('a difference', () => {
  it('names lines by their numbers in both texts, and tells all that differs', () => {
    fc.assert(
      fc.property(lines, lines, lines, lines, (head, a, b, tail) => {
        const before = [...head, ...a, ...tail];
        const after = [...head, ...b, ...tail];
        const got = diffLines(before.map((line) => `${line}\n`).join(''), after.map((line) => `${line}\n`).join(''));
        for (const line of got ?? []) {
          if (line.before !== null) expect(line.text).toBe(before[line.before - 1]);
          if (line.after !== null) expect(line.text).toBe(after[line.after - 1]);
        }
        const { added, removed } = diffCounts(got);
        expect(before.length - removed).toBe(after.length - added);
        expect(got?.length === 0).toBe(before.join('\n') === after.join('\n') && before.length === after.length);
      }),
    );
  });

  it('of very many lines shows what was there and what is there now', () => {
    const many = (what: string) => Array.from({ length: 10_000 }, (_, n) => `${what} ${n}\n`).join('');
    const got = diffLines(`same\n${many('old')}end`, `same\n${many('new')}end`);
    expect(diffCounts(got)).toEqual({ added: 10_000, removed: 10_000 });
    expect(got?.[0]).toEqual({ sign: ' ', text: 'same', before: 1, after: 1 });
    expect(got?.at(-1)).toEqual({ sign: ' ', text: 'end', before: 10_002, after: 10_002 });
  });
});

describe('the part of a long text', () => {
  it.each([
    ['ends after a line', 'aaaa\nbbbbbbbbbb', 6, 4],
    ['ends within a line that is too long', 'a'.repeat(50), 10, 10],
    ['is the text, if little is left', 'a'.repeat(12), 10, 12],
    ['ends before a character of two halves', `aaaaaaaaa${'\u{1f600}'.repeat(9)}`, 10, 9],
  ])('%s', (_, whole, size, end) => {
    expect(cut(whole, size)).toBe(end);
  });

  it.each([
    ['has the last lines', 'a\nb\nc\nd', 2, 100, 'c\nd'],
    ['has all of a short one', 'a\nb', 2, 100, 'a\nb'],
    ['has no more than so many characters', 'a\nbbbbbbbbbb', 2, 4, 'bbbb'],
    ['has nothing of nothing', '', 2, 4, ''],
  ])('at the end of an output %s', (_, output, most, characters, shown) => {
    expect(output.slice(tailOf(output, most, characters))).toBe(shown);
  });
});
