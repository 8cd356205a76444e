import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withLines } from './begin';
import { entriesOf, freeName, imageType, languageOf, mostText, readContent, shortPath, textOf } from './files';

const bytes = (text: string) => Uint8Array.from(text, (each) => each.charCodeAt(0));
const stream = (...parts: Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });

describe('names', () => {
  it('tells directories by their slash', () => {
    expect(entriesOf('/work', ['src/', 'a b.txt'])).toEqual([
      { name: 'src', path: '/work/src', dir: true },
      { name: 'a b.txt', path: '/work/a b.txt', dir: false },
    ]);
  });

  it('are short below where the agent works', () => {
    expect(shortPath('/work/a/b', '/work')).toBe('a/b');
    expect(shortPath('/workers/a', '/work')).toBe('/workers/a');
  });

  it('are never those that are taken', async () => {
    for (const [taken, want] of [
      [[], 'a.tar.gz'],
      [['a.tar.gz'], 'a.tar-1.gz'],
      [['a.tar.gz', 'a.tar-1.gz'], 'a.tar-2.gz'],
    ] as const)
      expect(await freeName('a.tar.gz', async (name) => (taken as readonly string[]).includes(name))).toBe(want);
    expect(await freeName('.env', async (name) => name === '.env')).toBe('.env-1');
    expect(await freeName('x', async () => true)).toMatch(/^x-\d{10,}$/);
  });

  it('tell the language', () => {
    for (const [name, want] of [
      ['/a/main.go', 'go'],
      ['Dockerfile.dev', 'dockerfile'],
      ['Makefile', 'makefile'],
      ['x.constructor', ''],
      ['go', ''],
    ])
      expect(languageOf(name ?? '')).toBe(want);
  });
});

describe('a file', () => {
  const png = bytes('\x89PNG\r\n\x1a\n\0\0\0\rIHDR');

  it('is an image by its bytes, not by its name', () => {
    expect(imageType(png)).toBe('image/png');
    expect(imageType(bytes('GIF89a......'))).toBe('image/gif');
    expect(imageType(bytes('RIFF....WEBPVP8 '))).toBe('image/webp');
    expect(imageType(bytes('<svg xmlns="http://www.w3.org/2000/svg">'))).toBeNull();
    expect(imageType(bytes('<script>'))).toBeNull();
  });

  it('is a text if it is UTF-8 without zeros', () => {
    expect(textOf(bytes('abc'), false)).toBe('abc');
    expect(textOf(bytes('a\0c'), false)).toBeNull();
    expect(textOf(bytes('a\xff'), false)).toBeNull();
    expect(textOf(bytes('\xc3'), false)).toBeNull();
    expect(textOf(bytes('a\xc3'), true)).toBe('a');
  });

  it('is read the same however it arrives', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 8 }),
        fc.boolean(),
        async (parts, image) => {
          const all = image ? [png.slice(0, 5), png.slice(5), ...parts] : parts;
          const whole = Uint8Array.from(all.flatMap((each) => [...each]));
          const got = await readContent(stream(...all), whole.length);
          const once = await readContent(stream(whole), whole.length);
          expect(got.kind).toBe(once.kind);
          expect(got.size).toBe(whole.length);
          if (image) expect(got.kind).toBe('image');
        },
      ),
    );
  });

  it('is not loaded beyond what is shown', async () => {
    let asked = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        asked++;
        controller.enqueue(new Uint8Array(50_000).fill(97));
      },
    });
    const got = await readContent(endless, 2 ** 40);
    expect(got).toMatchObject({ kind: 'text', cut: true, size: 2 ** 40 });
    expect(got.kind === 'text' && got.text.length).toBe(mostText);
    expect(asked).toBeLessThan(12);
    expect(await readContent(stream(png), 1 << 30)).toEqual({ kind: 'large', size: 1 << 30 });
  });
});

it('the message names the files after its text, or instead of one', () => {
  const image = { type: 'image' as const, image_urls: ['data:image/png;base64,AA'], cache_prompt: false };
  const text = (written: string) => ({ type: 'text' as const, text: written, cache_prompt: false });
  expect(withLines([text('look\n'), image], ['a.csv', 'b.csv'])).toEqual([text('look\na.csv\nb.csv'), image]);
  expect(withLines([image], ['a.csv'])).toEqual([text('a.csv'), image]);
});
