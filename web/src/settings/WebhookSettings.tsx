import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { PlugZap } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { CopyButton } from '../conversation/CopyButton';
import { explainError } from '../lib/errors';
import { ago, useNow } from '../lib/format';
import { visible } from '../lib/visible';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { CheckField, TextField } from '../ui/Field';
import { Entries, Entry } from './Entry';
import { Notice, Refusal } from './Notice';

type Webhook = Schema['Webhook'];

const at = (id: string) => ({ params: { path: { endpoint_id: id } } });

export function WebhookSettings() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const hooks = useQuery({
    queryKey: ['webhooks'],
    queryFn: async () =>
      (await ask(api.GET('/api/v1/webhook-endpoints/search', { params: { query: { limit: 100 } } }))).items,
  });
  const renew = () => client.invalidateQueries({ queryKey: ['webhooks'] });
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t('setup.hooks.intro')}</p>
      {hooks.error && <p className="text-sm text-bad">{explainError(hooks.error, t)}</p>}
      {hooks.data && (
        <Entries none={t('setup.hooks.none')}>
          {hooks.data.map((hook) => (
            <Hook key={hook.id} hook={hook} renew={renew} />
          ))}
        </Entries>
      )}
      <Add renew={renew} />
    </div>
  );
}

function Hook({ hook, renew }: { hook: Webhook; renew: () => Promise<void> }) {
  const { t, i18n } = useTranslation();
  const now = useNow(60_000);
  const [looking, setLooking] = useState(false);
  const remove = useMutation({
    mutationFn: () => ask(api.DELETE('/api/v1/webhook-endpoints/{endpoint_id}', at(hook.id))),
    onSuccess: renew,
  });
  const flip = useMutation({
    mutationFn: () =>
      ask(api.PATCH('/api/v1/webhook-endpoints/{endpoint_id}', { ...at(hook.id), body: { active: !hook.active } })),
    onSuccess: renew,
  });
  const test = useMutation({
    mutationFn: () => ask(api.POST('/api/v1/webhook-endpoints/{endpoint_id}/test', at(hook.id))),
    onSuccess: renew,
    meta: { quiet: true },
  });
  const g = 'setup.hooks';
  const place = visible(hook.url);
  const facts = [
    hook.active ? '' : t(`${g}.off`),
    hook.last_delivered_at
      ? t(`${g}.delivered`, { when: ago(new Date(hook.last_delivered_at), now, i18n.language) })
      : t(`${g}.neverDelivered`),
    hook.status_only ? t(`${g}.statusOnly`) : hook.kinds.join(', '),
    hook.conversation_ids.length > 0 || Object.keys(hook.tags).length > 0 ? t(`${g}.filtered`) : '',
  ];
  return (
    <Entry
      title={place}
      detail={
        <>
          {hook.description && <span className="block">{visible(hook.description)}</span>}
          {facts.filter(Boolean).join(' · ')}
          {(hook.disabled_reason ?? hook.last_error) && !test.data && (
            <span className="block text-bad">{visible(hook.disabled_reason ?? hook.last_error ?? '')}</span>
          )}
        </>
      }
      question={t(`${g}.deleteTitle`)}
      consequence={t(`${g}.deleteText`, { url: place })}
      onDelete={() => remove.mutate()}
      actions={
        <>
          <Button
            small
            icon={<PlugZap size={13} aria-hidden />}
            aria-label={`${t('setup.test')}: ${place}`}
            disabled={test.isPending}
            onClick={() => test.mutate()}
          >
            {t('setup.test')}
          </Button>
          <Button small aria-label={`${t(`${g}.deliveries`)}: ${place}`} onClick={() => setLooking(true)}>
            {t(`${g}.deliveries`)}
          </Button>
          <Button
            small
            aria-label={`${t(hook.active ? 'setup.disable' : 'setup.enable')}: ${place}`}
            disabled={flip.isPending}
            onClick={() => flip.mutate()}
          >
            {t(hook.active ? 'setup.disable' : 'setup.enable')}
          </Button>
        </>
      }
    >
      <div role="status">
        {test.data && !test.isPending && (
          <div className="mt-2">
            <Notice good={test.data.delivered} title={t(test.data.delivered ? `${g}.works` : `${g}.fails`)}>
              {!test.data.delivered && <p>{outcomeOf(test.data)}</p>}
            </Notice>
          </div>
        )}
        {test.error && !test.isPending && <Refusal text={explainError(test.error, t)} />}
      </div>
      <Dialog open={looking} onOpenChange={setLooking} title={t(`${g}.deliveries`)}>
        {looking && <Deliveries id={hook.id} />}
      </Dialog>
    </Entry>
  );
}

/** What came back: the status, and what went wrong, which may be the other side's text. */
function outcomeOf(delivery: Schema['WebhookDelivery']): string {
  return [delivery.http_status === null ? '' : `HTTP ${delivery.http_status}`, visible(delivery.error ?? '')]
    .filter(Boolean)
    .join(' · ');
}

function Deliveries({ id }: { id: string }) {
  const { t, i18n } = useTranslation();
  const now = useNow(10_000);
  const [failed, setFailed] = useState(false);
  const got = useQuery({
    queryKey: ['webhooks', id, failed],
    queryFn: async () =>
      (
        await ask(
          api.GET('/api/v1/webhook-endpoints/{endpoint_id}/deliveries/search', {
            params: { path: { endpoint_id: id }, query: { limit: 50, failed } },
          }),
        )
      ).items,
    refetchInterval: 5000,
  });
  const g = 'setup.hooks';
  return (
    <div className="space-y-3">
      <CheckField label={t(`${g}.failedOnly`)} checked={failed} onChange={(event) => setFailed(event.target.checked)} />
      {got.error && <p className="text-sm text-bad">{explainError(got.error, t)}</p>}
      {got.data?.length === 0 && <p className="text-sm text-ink-soft">{t(`${g}.noDeliveries`)}</p>}
      {got.data && got.data.length > 0 && (
        <ul className="divide-y divide-line rounded-lg border border-line">
          {got.data.map((each) => (
            <li key={each.id} className="px-3 py-2 text-[13px]">
              <p className={each.delivered ? 'font-medium text-good' : 'font-medium text-bad'}>
                {t(each.delivered ? `${g}.arrived` : each.next_attempt_at ? `${g}.waits` : `${g}.lost`)}
                {' · '}
                {each.conversation_id === null ? t(`${g}.aTest`) : t(`${g}.events`, { count: each.events })}
              </p>
              <p className="text-ink-soft [overflow-wrap:anywhere]">
                {ago(new Date(each.updated_at), now, i18n.language)}
                {' · '}
                {t(`${g}.attempts`, { count: each.attempts })}
                {outcomeOf(each) !== '' && ` · ${outcomeOf(each)}`}
              </p>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Add({ renew }: { renew: () => Promise<void> }) {
  const { t } = useTranslation();
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [statusOnly, setStatusOnly] = useState(true);
  const [kinds, setKinds] = useState('');
  const [secret, setSecret] = useState('');
  const add = useMutation({
    mutationFn: () =>
      ask(
        api.POST('/api/v1/webhook-endpoints', {
          body: {
            url: url.trim(),
            description: description.trim(),
            active: true,
            status_only: statusOnly,
            ...(secret.trim() === '' ? {} : { secret: secret.trim() }),
            ...(statusOnly || kinds.trim() === '' ? {} : { kinds: kinds.split(/[\s,]+/).filter(Boolean) }),
          },
        }),
      ),
    onSuccess: () => {
      setUrl('');
      setDescription('');
      setSecret('');
      return renew();
    },
    meta: { quiet: true },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  const g = 'setup.hooks';
  return (
    <form onSubmit={submit} className="space-y-4" autoComplete="off">
      <TextField
        label={t(`${g}.url`)}
        help={t(`${g}.urlHelp`)}
        type="url"
        required
        maxLength={2000}
        placeholder="https://"
        value={url}
        onChange={(event) => setUrl(event.target.value)}
      />
      <TextField
        label={t('settings.secrets.description')}
        maxLength={500}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      <CheckField
        label={t(`${g}.statusOnly`)}
        help={t(`${g}.statusOnlyHelp`)}
        checked={statusOnly}
        onChange={(event) => setStatusOnly(event.target.checked)}
      />
      {!statusOnly && (
        <TextField
          label={t(`${g}.kinds`)}
          help={t(`${g}.kindsHelp`)}
          placeholder="MessageEvent"
          spellCheck={false}
          value={kinds}
          onChange={(event) => setKinds(event.target.value)}
        />
      )}
      <details>
        <summary className="text-sm font-medium text-accent-text">{t('setup.more')}</summary>
        <div className="mt-3">
          <TextField
            label={t(`${g}.secret`)}
            help={t(`${g}.secretHelp`)}
            type="password"
            autoComplete="off"
            placeholder="whsec_"
            value={secret}
            onChange={(event) => setSecret(event.target.value)}
          />
        </div>
      </details>
      {add.error && <Refusal text={explainError(add.error, t)} />}
      <Button kind="primary" type="submit" disabled={url.trim() === '' || add.isPending}>
        {t(`${g}.add`)}
      </Button>
      <div role="status">
        {add.data && (
          <Notice good title={t(`${g}.once`)}>
            <p className="flex items-center gap-2">
              <code className="min-w-0 font-mono text-[13px] [overflow-wrap:anywhere]">{add.data.secret}</code>
              <CopyButton text={add.data.secret} />
            </p>
          </Notice>
        )}
      </div>
    </form>
  );
}
