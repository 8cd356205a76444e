import fc from 'fast-check';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readNote } from './socket';
import { addStyle, withoutStyleElements } from './styles';

describe('what the server says', () => {
  it('is read', () => {
    expect(readNote('{"type":"ready"}')).toEqual({ type: 'ready' });
    expect(readNote('{"type":"exit","exit_code":130}')).toEqual({ type: 'exit', code: 130 });
    expect(readNote('{"type":"error","code":"sandbox_paused","detail":"It is paused.","fatal":true}')).toEqual({
      type: 'error',
      code: 'sandbox_paused',
      detail: 'It is paused.',
      fatal: true,
    });
  });
  it('may be anything', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        const note = readNote(text);
        expect(note === null || typeof note.type === 'string').toBe(true);
      }),
    );
  });
});

describe('styles of the emulator', () => {
  // jsdom cannot construct style sheets.
  class Sheet {
    text = '';
    replaceSync(css: string) {
      this.text = css;
    }
  }
  beforeAll(() => {
    Object.assign(globalThis, { CSSStyleSheet: Sheet });
    Object.assign(document, { adoptedStyleSheets: [] });
  });
  afterEach(() => {
    document.adoptedStyleSheets = [];
  });
  const sheets = () => document.adoptedStyleSheets.map((each) => (each as unknown as Sheet).text);

  it('become style sheets as long as their element is there', () => {
    const before = document.createElement;
    let style = document.createElement('a') as HTMLElement;
    withoutStyleElements(document, () => {
      style = document.createElement('style');
      expect(document.createElement('span').tagName).toBe('SPAN');
    });
    expect(document.createElement).toBe(before);
    document.body.append(style);
    expect(sheets()).toEqual([]);
    style.textContent = 'a { color: red }';
    style.textContent = 'b { color: red }';
    expect(sheets()).toEqual(['b { color: red }']);
    expect(style.textContent).toBe('b { color: red }');
    expect(document.querySelector('style')).toBeNull();
    style.remove();
    expect(sheets()).toEqual([]);
    expect(style.isConnected).toBe(false);
  });

  it('leave the document as it was, whatever happens', () => {
    const before = document.createElement;
    expect(() =>
      withoutStyleElements(document, () => {
        throw new Error('no');
      }),
    ).toThrow('no');
    expect(document.createElement).toBe(before);
  });

  it('become the style object', () => {
    const span = document.createElement('span');
    addStyle(span, 'color:#ff0000');
    addStyle(span, 'background-color:#00ff00');
    expect([span.style.color, span.style.backgroundColor]).toEqual(['rgb(255, 0, 0)', 'rgb(0, 255, 0)']);
  });
});
