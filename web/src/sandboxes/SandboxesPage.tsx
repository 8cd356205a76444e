import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pause, Play, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { sandboxSpecs } from '../api/queries';
import { StatusDot } from '../conversations/StatusDot';
import { explainError } from '../lib/errors';
import { ago, bytes, useNow } from '../lib/format';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { Usage } from './Usage';

type Sandbox = Schema['SandboxInfo'];

export function SandboxesPage() {
  const { t } = useTranslation();
  const sandboxes = useQuery({
    queryKey: ['sandboxes'],
    queryFn: () => ask(api.GET('/api/v1/sandboxes/search')),
    refetchInterval: 3000,
  });
  const specs = useQuery(sandboxSpecs);
  const items = sandboxes.data?.items ?? [];
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <div className="mx-auto max-w-4xl space-y-8 p-4">
        <section>
          <h1 className="mb-3 text-lg font-semibold">{t('sandboxes.title')}</h1>
          {sandboxes.error && <p className="text-bad">{explainError(sandboxes.error, t)}</p>}
          {sandboxes.isSuccess && items.length === 0 && <p className="text-sm text-ink-soft">{t('sandboxes.none')}</p>}
          <ul className="space-y-2">
            {items.map((each) => (
              <Row key={each.id} sandbox={each} />
            ))}
          </ul>
        </section>
        <section>
          <h2 className="mb-3 text-base font-semibold">{t('sandboxes.specs')}</h2>
          <ul className="space-y-2">
            {specs.data?.map((spec) => (
              <Spec key={spec.id} spec={spec} />
            ))}
          </ul>
        </section>
      </div>
    </div>
  );
}

const shown = { STARTING: 'starting', RUNNING: 'running', PAUSED: 'asleep', ERROR: 'failed', MISSING: 'gone' } as const;

function Row({ sandbox }: { sandbox: Sandbox }) {
  const { t, i18n } = useTranslation();
  const now = useNow(10_000);
  const client = useQueryClient();
  const [deleting, setDeleting] = useState(false);
  const params = { params: { path: { sandbox_id: sandbox.id } } };
  const act = useMutation({
    mutationFn: (what: 'pause' | 'resume' | 'delete') => {
      if (what === 'pause') return ask(api.POST('/api/v1/sandboxes/{sandbox_id}/pause', params));
      if (what === 'resume') return ask(api.POST('/api/v1/sandboxes/{sandbox_id}/resume', params));
      return ask(api.DELETE('/api/v1/sandboxes/{sandbox_id}', params));
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['sandboxes'] }),
  });
  return (
    <li className="rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <span className="flex min-w-0 flex-1 basis-60 items-center gap-2">
          <StatusDot status={shown[sandbox.status]} />
          <span className="min-w-0">
            <span className="block truncate font-mono text-[13px]">{sandbox.id}</span>
            <span className="block text-xs text-ink-soft">
              {t(`sandboxes.status.${sandbox.status}`)} · {sandbox.sandbox_spec_id} ·{' '}
              {ago(new Date(sandbox.created_at), now, i18n.language)}
            </span>
          </span>
        </span>
        <span className="flex gap-2">
          {sandbox.status === 'RUNNING' && (
            <Button
              small
              icon={<Pause size={14} aria-hidden />}
              disabled={act.isPending}
              onClick={() => act.mutate('pause')}
            >
              {t('sandboxes.pause')}
            </Button>
          )}
          {sandbox.status === 'PAUSED' && (
            <Button
              small
              icon={<Play size={14} aria-hidden />}
              disabled={act.isPending}
              onClick={() => act.mutate('resume')}
            >
              {t('sandboxes.resume')}
            </Button>
          )}
          <Button
            small
            kind="danger"
            icon={<Trash2 size={14} aria-hidden />}
            disabled={act.isPending}
            onClick={() => setDeleting(true)}
          >
            {t('list.delete')}
          </Button>
        </span>
      </div>
      <Users id={sandbox.id} />
      {sandbox.status_detail && <p className="mt-1.5 text-[13px] text-ink-soft">{sandbox.status_detail}</p>}
      {sandbox.status === 'RUNNING' && <Usage id={sandbox.id} />}
      <Dialog open={deleting} onOpenChange={setDeleting} title={t('sandboxes.deleteTitle')}>
        <p className="text-sm">{t('sandboxes.deleteText')}</p>
        <div className="mt-4 flex justify-end gap-2">
          <Button onClick={() => setDeleting(false)}>{t('common.cancel')}</Button>
          <Button
            kind="danger"
            onClick={() => {
              setDeleting(false);
              act.mutate('delete');
            }}
          >
            {t('list.delete')}
          </Button>
        </div>
      </Dialog>
    </li>
  );
}

/** The conversations that work in a sandbox. */
function Users({ id }: { id: string }) {
  const { t } = useTranslation();
  const found = useQuery({
    queryKey: ['conversations of', id],
    queryFn: () =>
      ask(
        api.GET('/api/v1/app-conversations/search', {
          params: { query: { sandbox_id__eq: id, sort_order: 'UPDATED_AT_DESC', limit: 5 } },
        }),
      ),
    staleTime: 30_000,
  });
  const items = found.data?.items ?? [];
  if (items.length === 0) return null;
  return (
    <ul aria-label={t('list.title')} className="mt-1.5 flex flex-wrap gap-x-4 gap-y-1 text-sm">
      {items.map((c) => (
        <li key={c.id} className="min-w-0">
          <a href={`#/c/${c.id}`} className="text-accent-text underline [overflow-wrap:anywhere]">
            {c.title || t('list.untitled')}
          </a>
        </li>
      ))}
      {found.data?.next_page_id && <li aria-hidden>…</li>}
    </ul>
  );
}

function Spec({ spec }: { spec: Schema['SandboxSpecInfo'] }) {
  const { t, i18n } = useTranslation();
  const facts = [
    spec.backend,
    spec.image ?? '',
    spec.limits.cpus === null ? '' : t('sandboxes.cpus', { count: spec.limits.cpus }),
    spec.limits.memory_bytes === null ? '' : bytes(spec.limits.memory_bytes, i18n.language),
    t(`sandboxes.network.${spec.network.mode}`),
  ].filter((each) => each !== '');
  return (
    <li className="rounded-lg border border-line p-3">
      <p className="font-mono text-[13px]">{spec.id}</p>
      <p className="text-[13px] text-ink-soft">{facts.join(' · ')}</p>
    </li>
  );
}
