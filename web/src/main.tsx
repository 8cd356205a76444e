import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App, queries } from './App';
import { conversation } from './api/queries';
import { countEarly } from './conversation/range';
import { startLanguage } from './i18n';
import { parseRoute } from './lib/router';
import { applyTheme } from './lib/theme';
import { currentKey, takeKey } from './session/session';
import { loadConversationPage } from './shell/Shell';
import './styles/app.css';

// A conversation that the address names is asked for while the rest is loaded.
function prepare(): Promise<unknown> {
  const route = parseRoute(location.hash);
  if (route.page !== 'conversation' || currentKey() === null) return Promise.resolve();
  void queries.prefetchQuery(conversation(route.id));
  countEarly(route.id);
  return loadConversationPage().catch(() => {}); // it is tried again where it is shown
}

takeKey();
applyTheme();
await Promise.all([startLanguage(), prepare()]);
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

// The first conversation that is opened from another page need not wait for its part.
setTimeout(() => void loadConversationPage().catch(() => {}), 300);
