import { act, renderHook } from '@testing-library/react';
import { expect, it } from 'vitest';
import { forgetDrafts, useDraft } from './drafts';

const form = (name: string, stored: Record<string, string>) =>
  renderHook((now: Record<string, string>) => useDraft(name, now), { initialProps: stored });

it('what was changed is there when the form comes back, until it is saved', () => {
  const first = form('form', { a: '1', b: '2' });
  act(() => first.result.current.set({ a: 'changed', b: '2' }));
  first.unmount();

  // Meanwhile another page stored another value of what was not changed here.
  const second = form('form', { a: '1', b: 'newer' });
  expect(second.result.current.now).toEqual({ a: 'changed', b: 'newer' });
  second.rerender({ a: 'changed', b: 'newer' });
  act(() => second.result.current.saved());
  expect(second.result.current.now).toEqual({ a: 'changed', b: 'newer' });
  second.unmount();
  expect(form('form', { a: '9', b: '9' }).result.current.now).toEqual({ a: '9', b: '9' });
});

it('what was changed back is no change', () => {
  const first = form('other', { a: '1' });
  act(() => first.result.current.set({ a: '2' }));
  act(() => first.result.current.set({ a: '1' }));
  first.unmount();
  expect(form('other', { a: '3' }).result.current.now).toEqual({ a: '3' });
});

it('another user finds nothing', () => {
  const first = form('third', { a: '1' });
  act(() => first.result.current.set({ a: '2' }));
  first.unmount();
  forgetDrafts();
  expect(form('third', { a: '1' }).result.current.now).toEqual({ a: '1' });
});
