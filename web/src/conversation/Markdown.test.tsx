import { act, cleanup, render } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Markdown, Streaming, safeUrl, saysWhere } from './Markdown';

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

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
    ['evil.example', true],
    ['https://evil.example/login', true],
    ['http://evil.example', true],
    ['https://good.example/?evil.example', false],
    ['good.example/evil.example', false],
    ['https://evil.example@good.example/', false],
    ['evil.example.good.example', false],
    ['your bank', false],
  ])('takes the text %s for the place of https://evil.example/login: %s', (text, yes) => {
    expect(saysWhere(text, 'https://evil.example/login')).toBe(yes);
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

describe('text that is being written', () => {
  it('is shown while it grows faster than it is set', () => {
    vi.useFakeTimers();
    const { container, rerender } = render(<Streaming text="word-0" />);
    let text = 'word-0';
    for (let word = 1; word < 50; word++) {
      text += ` word-${word}`;
      rerender(<Streaming text={text} />);
      act(() => vi.advanceTimersByTime(40));
      expect(container.textContent).toContain(`word-${Math.max(0, word - 3)}`);
    }
    act(() => vi.advanceTimersByTime(100));
    expect(container.textContent).toContain('word-49');
  });
});
