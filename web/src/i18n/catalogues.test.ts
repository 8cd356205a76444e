import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import de from './de.json';
import en from './en.json';
import fr from './fr.json';

function flat(value: object, prefix = ''): Map<string, string> {
  const out = new Map<string, string>();
  for (const [key, each] of Object.entries(value)) {
    if (typeof each === 'string') out.set(prefix + key, each);
    else for (const [inner, text] of flat(each as object, `${prefix}${key}.`)) out.set(inner, text);
  }
  return out;
}

const holes = (text: string) => [...text.matchAll(/\{\{\w+\}\}|<\/?\w+>/g)].map((match) => match[0]).sort();
// French has a form for large numbers that is not asked of catalogues: "other" serves.
const english = flat(en);

describe.each([
  ['de', de],
  ['fr', fr],
])('%s', (_, catalogue) => {
  const texts = flat(catalogue);

  it('has the texts that English has, and no others', () => {
    expect([...texts.keys()].sort()).toEqual([...english.keys()].sort());
  });

  it('fills in the same values', () => {
    for (const [key, text] of texts) {
      // A singular may leave its number out.
      if (!key.endsWith('_one')) expect([key, holes(text)]).toEqual([key, holes(english.get(key) ?? '')]);
    }
  });

  it('has no empty text and is not English', () => {
    let same = 0;
    for (const [key, text] of texts) {
      expect(text.trim(), key).not.toBe('');
      if (text === english.get(key)) same++;
    }
    expect(same / texts.size).toBeLessThan(0.15);
  });
});

describe('the sources', () => {
  const files = readdirSync('src', { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.includes('.test.'))
    .map((entry) => readFileSync(`${entry.parentPath}/${entry.name}`, 'utf8'))
    .join('\n');

  it('use every text', () => {
    const bases = [...english.keys()].map((key) => key.replace(/_(one|other)$/, ''));
    const unused = bases.filter((key) => {
      if (files.includes(`'${key}'`) || files.includes(`"${key}"`)) return false;
      // Keys that are put together: `status.${...}`, or `${g}.confirm` with g the rest.
      const group = key.slice(0, key.lastIndexOf('.'));
      const last = key.slice(key.lastIndexOf('.') + 1);
      return (
        !files.includes(`\`${group}.\${`) &&
        !files.includes(`}.${last}\``) &&
        !files.includes(`}.${group.slice(group.lastIndexOf('.') + 1)}.\${`)
      );
    });
    expect(unused).toEqual([]);
  });
});
