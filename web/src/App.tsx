import { MutationCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import i18next from 'i18next';
import { useEffect } from 'react';
import { ApiError } from './api/client';
import { explainError } from './lib/errors';
import { SignIn } from './session/SignIn';
import { useKey } from './session/session';
import { Boundary } from './shell/Boundary';
import { Shell } from './shell/Shell';
import { Toasts, toastError } from './ui/Toast';
import { TooltipProvider } from './ui/Tooltip';

/** What was asked of the server. */
export const queries = new QueryClient({
  defaultOptions: {
    // A server on the same machine is there without a network, too: only asking tells.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: 2000,
      retry: (failures, error) =>
        failures < 3 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
    },
  },
  mutationCache: new MutationCache({
    onError: (error, _variables, _context, mutation) => {
      // Forms show their errors themselves.
      if (mutation.meta?.quiet !== true) toastError(explainError(error, i18next.t));
    },
  }),
});

export function App() {
  const key = useKey();
  useEffect(() => {
    if (key === null) queries.clear();
  }, [key]);
  return (
    <QueryClientProvider client={queries}>
      <TooltipProvider delayDuration={400}>
        <Boundary>{key === null ? <SignIn /> : <Shell key={key} />}</Boundary>
        <Toasts />
      </TooltipProvider>
    </QueryClientProvider>
  );
}
