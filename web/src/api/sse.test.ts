import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FrameParser } from './sse';

const stream =
  'retry: 1000\n\nid: 0\ndata: {"a":1}\n\n: silence\n\nevent: delta\r\ndata: x\r\ndata: y\r\n\r\nid: 7\ndata:z\r\r';
const frames = [
  { id: '0', event: '', data: '{"a":1}' },
  { id: '', event: 'delta', data: 'x\ny' },
  { id: '7', event: '', data: 'z' },
];

it('finds the same frames wherever the text is cut', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(stream.length), { maxLength: 12 }), (cuts) => {
      const parser = new FrameParser();
      const places = [0, ...cuts.sort((a, b) => a - b), stream.length];
      const got = places.slice(1).flatMap((end, i) => parser.push(stream.slice(places[i], end)));
      expect([...got, ...parser.push('\n')]).toEqual(frames);
    }),
  );
});

// Else it takes minutes.
it('looks at a long line once, however small its pieces are', () => {
  const parser = new FrameParser();
  const piece = 'x'.repeat(1000);
  parser.push('id: 1\ndata: ');
  let early = 0;
  for (let i = 0; i < 20_000; i++) early += parser.push(piece).length;
  expect(early).toBe(0);
  expect(parser.push('\n\n')[0]?.data).toHaveLength(20_000_000);
});
