import clsx from 'clsx';
import { Boxes, Settings as Gear, Keyboard, LogOut, MessagesSquare, Monitor, Plus } from 'lucide-react';
import { lazy, type ReactNode, Suspense, useCallback, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { forgetWritten } from '../conversation/Composer';
import { ConversationList } from '../conversations/ConversationList';
import { deletions } from '../conversations/deletions';
import { NewConversation } from '../conversations/NewConversation';
import { type Language, languages, setLanguage } from '../i18n';
import { lazyPage } from '../lib/lazyPage';
import { type Route, useRoute } from '../lib/router';
import { setTheme, type Theme, useTheme } from '../lib/theme';
import { signOut } from '../session/session';
import { forgetDrafts } from '../settings/drafts';
import { IconButton } from '../ui/Button';
import { Menu, MenuChoice, MenuItem, MenuSeparator } from '../ui/Menu';
import { Tooltip } from '../ui/Tooltip';
import { Attention } from './Attention';
import { Boundary } from './Boundary';
import { useShortcuts } from './keys';
import { Offline } from './Offline';
import { Shortcuts } from './Shortcuts';

const { Page: ConversationPage, preload } = lazyPage(() =>
  import('../conversation/ConversationPage').then((m) => m.ConversationPage),
);

/** Loads what shows a conversation. */
export const loadConversationPage = preload;
const SettingsPage = lazy(() => import('../settings/SettingsPage').then((m) => ({ default: m.SettingsPage })));
const SandboxesPage = lazy(() => import('../sandboxes/SandboxesPage').then((m) => ({ default: m.SandboxesPage })));

/** The frame of every page: navigation, the list of conversations, and what is open. */
export function Shell() {
  const { t } = useTranslation();
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const showHelp = useCallback(() => setHelp(true), []);
  useShortcuts(showHelp);
  const listOnly = route.page === 'home';
  return (
    <div className="flex h-full flex-col">
      <button
        type="button"
        onClick={() => document.getElementById('main')?.focus()}
        className="absolute top-1 left-1 z-60 -translate-y-16 rounded-md bg-accent px-3 py-2 text-accent-ink focus:translate-y-0"
      >
        {t('shell.skip')}
      </button>
      <Header route={route} onHelp={showHelp} />
      <Offline />
      <Attention route={route} />
      {help && <Shortcuts onDone={() => setHelp(false)} />}
      <div className="flex min-h-0 flex-1">
        <aside
          aria-label={t('list.title')}
          className={clsx(
            'w-full shrink-0 flex-col border-r border-line bg-canvas md:flex md:w-80',
            listOnly ? 'flex' : 'hidden',
          )}
        >
          <ConversationList current={route.page === 'conversation' ? route.id : ''} />
        </aside>
        <main
          id="main"
          tabIndex={-1}
          className={clsx('min-w-0 flex-1 flex-col bg-surface outline-none md:flex', listOnly ? 'hidden' : 'flex')}
        >
          <Boundary key={route.page}>
            <Suspense fallback={null}>
              <Page route={route} />
            </Suspense>
          </Boundary>
        </main>
      </div>
    </div>
  );
}

function Page({ route }: { route: Route }): ReactNode {
  switch (route.page) {
    case 'conversation':
      return <ConversationPage key={route.id} id={route.id} event={route.event} />;
    case 'settings':
      return <SettingsPage tab={route.tab} />;
    case 'sandboxes':
      return <SandboxesPage />;
    default:
      return <NewConversation />;
  }
}

function Header({ route, onHelp }: { route: Route; onHelp: () => void }) {
  const { t, i18n } = useTranslation();
  const theme = useTheme();
  const themes: Record<Theme, string> = { system: t('theme.system'), light: t('theme.light'), dark: t('theme.dark') };
  return (
    <header className="flex h-12 shrink-0 items-center gap-1 border-b border-line bg-canvas px-2 md:px-3">
      <a href="#/" className="flex items-center gap-2 rounded-md px-1.5 py-1 font-semibold">
        <MessagesSquare size={19} className="text-accent-text" aria-hidden />
        Parley
      </a>
      <nav aria-label={t('shell.navigation')} className="ml-auto flex items-center gap-0.5">
        <NavLink
          to="#/new"
          current={route.page === 'new'}
          label={t('shell.new')}
          icon={<Plus size={17} aria-hidden />}
        />
        <NavLink
          to="#/sandboxes"
          current={route.page === 'sandboxes'}
          label={t('shell.sandboxes')}
          icon={<Boxes size={17} aria-hidden />}
        />
        <NavLink
          to="#/settings"
          current={route.page === 'settings'}
          label={t('shell.settings')}
          icon={<Gear size={17} aria-hidden />}
        />
      </nav>
      <Menu
        trigger={
          <IconButton label={t('shell.appearance')}>
            <Monitor size={17} aria-hidden />
          </IconButton>
        }
      >
        <MenuChoice label={t('theme.title')} value={theme} options={themes} onChange={setTheme} />
        <MenuSeparator />
        <MenuChoice
          label={t('shell.language')}
          value={i18n.language as Language}
          options={languages}
          onChange={(language) => void setLanguage(language)}
        />
        <MenuSeparator />
        <MenuItem icon={<Keyboard size={15} aria-hidden />} onSelect={onHelp}>
          {t('shortcuts.title')}
        </MenuItem>
        <MenuItem icon={<LogOut size={15} aria-hidden />} onSelect={() => void leave()}>
          {t('shell.signOut')}
        </MenuItem>
      </Menu>
    </header>
  );
}

// What was not done yet needs the key; what was not sent is not for whoever comes next.
async function leave(): Promise<void> {
  await deletions.now();
  forgetWritten();
  forgetDrafts();
  signOut();
}

function NavLink({ to, current, label, icon }: { to: string; current: boolean; label: string; icon: ReactNode }) {
  return (
    <Tooltip text={label}>
      <a
        href={to}
        aria-label={label}
        aria-current={current ? 'page' : undefined}
        className={clsx(
          'inline-flex h-8 items-center gap-1.5 rounded-md px-2 text-sm transition-colors hover:bg-hover',
          current ? 'bg-hover text-ink' : 'text-ink-soft',
        )}
      >
        {icon}
        <span className="hidden lg:inline" aria-hidden>
          {label}
        </span>
      </a>
    </Tooltip>
  );
}
