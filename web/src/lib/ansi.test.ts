import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAnsi } from './ansi';

describe('terminal output', () => {
  it.each([
    ['plain', [{ text: 'plain', classes: '' }]],
    [
      '\x1b[1;31mred\x1b[0m on',
      [
        { text: 'red', classes: 'ansi-bold ansi-1' },
        { text: ' on', classes: '' },
      ],
    ],
    ['\x1b[38;5;4mblue\x1b[39m', [{ text: 'blue', classes: 'ansi-4' }]],
    ['\x1b[38;2;1;2;3;1mtrue colour', [{ text: 'true colour', classes: 'ansi-bold' }]],
    ['10%\r50%\r100%\r\ndone', [{ text: '100%\ndone', classes: '' }]],
    ['\x1b]0;title\x07text\x1b[2K\x1b[?25l', [{ text: 'text', classes: '' }]],
    ['a\x00\x08b', [{ text: 'ab', classes: '' }]],
  ])('%j', (text, runs) => {
    expect(parseAnsi(text)).toEqual(runs);
  });

  it('never shows a control character', () => {
    const pieces = fc.array(
      fc.oneof(fc.string(), fc.constantFrom('\x1b', '\x1b[', '31', 'm', '\x1b]', '\x07', '\r', '\n', ';', '\x9b')),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(pieces, (parts) => {
        const shown = parseAnsi(parts.join(''))
          .map((run) => run.text)
          .join('');
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
        expect(shown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f]/);
      }),
    );
  });
});
