import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { Boundary } from './Boundary';

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function Breaks(): never {
  throw new Error('a part of the page that cannot be loaded');
}

it('a part that breaks says so, and what is beside it stays', () => {
  vi.spyOn(console, 'error').mockImplementation(() => {});
  render(
    <>
      <p>beside</p>
      <Boundary>
        <Breaks />
      </Boundary>
    </>,
  );
  expect(screen.getByText('beside')).toBeTruthy();
  expect(screen.getByRole('alert')).toBeTruthy();
});
