import { expect, it } from 'vitest';
import { type Sample, sampleOf } from './sample';

const usage = (cpu_seconds: number | null) => ({ cpu_seconds }) as Sample['usage'];

it.each<[string, number | null, number | null, number, number | null]>([
  ['half a CPU', 10, 12.5, 5000, 0.5],
  ['two CPUs', 10, 20, 5000, 2],
  ['nothing, where it rests', 10, 10, 5000, 0],
  ['nothing, where its counter begins anew', 10, 1, 5000, 0],
  ['what is not known, where the server does not tell', 10, null, 5000, null],
  ['what is not known, where it did not tell before', null, 3, 5000, null],
])('takes %s', (_, from, to, ms, wanted) => {
  const first = sampleOf(null, usage(from), 1000);
  expect(first.cpus).toBeNull();
  expect(sampleOf(first, usage(to), 1000 + ms).cpus).toBe(wanted);
});
