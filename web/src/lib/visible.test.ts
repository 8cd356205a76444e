import { expect, it } from 'vitest';
import { visible } from './visible';

it.each([
  ['ls -la\n\tpwd', 'ls -la\n\tpwd'],
  ['rm x\r# ls', 'rm x\\u000d# ls'],
  ['a\u202eb\u2066c', 'a\\u202eb\\u2066c'],
  ['\x1b[8mrm\x1b[0m', '\\u001b[8mrm\\u001b[0m'],
  ['zero\u200bwidth', 'zero\\u200bwidth'],
  ['Grüße 世界', 'Grüße 世界'],
])('%j', (text, shown) => {
  expect(visible(text)).toBe(shown);
});
