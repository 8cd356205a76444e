import { cleanup, render } from '@testing-library/react';
import { afterEach, describe, expect, it } from 'vitest';
import { Markdown, safeUrl } from './Markdown';

afterEach(cleanup);

const show = (text: string) => render(<Markdown text={text} />).container;

describe('what a model writes', () => {
  it.each([
    ['<img src=x onerror=alert(1)>'],
    ['<script>alert(1)</script>'],
    ['![pixel](https://evil.example/p.png)'],
    ['![pixel](data:image/svg+xml;base64,AAAA)'],
    ['<iframe src="https://evil.example"></iframe>'],
    ['[x]: https://evil.example/p.png\n\n![x]'],
    ['<style>*{display:none}</style>'],
  ])('loads and runs nothing: %j', (text) => {
    expect(show(text).querySelector('img, script, iframe, style, object, embed, video, form')).toBeNull();
  });

  it('says where links go', () => {
    const link = show('[your bank](https://evil.example/login)').querySelector('a');
    expect(link?.textContent).toContain('evil.example');
    expect(link?.rel).toContain('noopener');
    expect(link?.rel).toContain('noreferrer');
  });

  it.each([
    ['javascript:alert(1)'],
    ['JaVaScRiPt:alert(1)'],
    ['data:text/html,x'],
    ['vbscript:x'],
    ['//evil.example'],
    ['/api/v1/settings'],
    ['#/settings'],
    ['file:///etc/passwd'],
  ])('makes no link of %s', (url) => {
    expect(safeUrl(url)).toBe('');
    expect(show(`[x](${url})`).querySelector('a')).toBeNull();
  });
});
