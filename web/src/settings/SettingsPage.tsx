import { useQuery } from '@tanstack/react-query';
import { lazy, type ReactNode, Suspense } from 'react';
import { useTranslation } from 'react-i18next';
import { serverInfo } from '../api/queries';
import { go } from '../lib/router';
import { Tabs } from '../ui/Tabs';
import { GeneralSettings } from './GeneralSettings';
import { GitSettings } from './GitSettings';
import { KeySettings } from './KeySettings';
import { ModelSettings } from './ModelSettings';
import { SecretSettings } from './SecretSettings';

const ProfileSettings = lazy(() => import('./ProfileSettings').then((m) => ({ default: m.ProfileSettings })));
const McpSettings = lazy(() => import('./McpSettings').then((m) => ({ default: m.McpSettings })));
const MoreSettings = lazy(() => import('./MoreSettings').then((m) => ({ default: m.MoreSettings })));
const WebhookSettings = lazy(() => import('./WebhookSettings').then((m) => ({ default: m.WebhookSettings })));

export function SettingsPage({ tab }: { tab: string }) {
  const { t } = useTranslation();
  const info = useQuery(serverInfo);
  const tabs: { value: string; label: string; content: ReactNode }[] = [
    { value: 'model', label: t('settings.model.tab'), content: <ModelSettings /> },
    { value: 'profiles', label: t('setup.profiles.tab'), content: <ProfileSettings /> },
    { value: 'mcp', label: t('setup.mcp.tab'), content: <McpSettings /> },
    { value: 'general', label: t('settings.general.tab'), content: <GeneralSettings /> },
    { value: 'git', label: t('settings.git.tab'), content: <GitSettings /> },
    { value: 'secrets', label: t('settings.secrets.tab'), content: <SecretSettings /> },
    { value: 'keys', label: t('settings.keys.tab'), content: <KeySettings /> },
    { value: 'webhooks', label: t('setup.hooks.tab'), content: <WebhookSettings /> },
    { value: 'more', label: t('setup.rest.tab'), content: <MoreSettings /> },
  ];
  return (
    <>
      <div className="flex items-baseline justify-between gap-3 px-4 pt-4 pb-2">
        <h1 className="text-lg font-semibold">{t('settings.title')}</h1>
        {info.data && <p className="text-xs text-ink-soft">Parley {info.data.version}</p>}
      </div>
      <Tabs
        value={tabs.some((each) => each.value === tab) ? tab : 'model'}
        onChange={(value) => go(`#/settings/${value}`, true)}
        label={t('settings.title')}
        tabs={tabs.map((each) => ({
          ...each,
          content: (
            <div className="mx-auto w-full max-w-2xl p-4 pb-10">
              <Suspense fallback={null}>{each.content}</Suspense>
            </div>
          ),
        }))}
      />
    </>
  );
}
