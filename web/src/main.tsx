import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from './App';
import { startLanguage } from './i18n';
import { applyTheme } from './lib/theme';
import { takeKey } from './session/session';
import './styles/app.css';

takeKey();
applyTheme();
await startLanguage();
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
