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
