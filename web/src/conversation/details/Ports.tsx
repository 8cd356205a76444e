import { useMutation, useQuery } from '@tanstack/react-query';
import { ExternalLink } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { Conversation, Schema } from '../../api/client';
import { explainError } from '../../lib/errors';
import { Button } from '../../ui/Button';
import { CopyButton } from '../CopyButton';
import { openPreview, previews } from './preview';
import { sandboxOf } from './queries';

/** What listens in the sandbox, to be opened in the browser. */
export function Ports({ conversation }: { conversation: Conversation }) {
  const { t } = useTranslation();
  const sandbox = useQuery(sandboxOf(conversation));
  const running = sandbox.data?.status === 'RUNNING';
  const found = previews(sandbox.data?.exposed_urls ?? null);
  return (
    <div className="space-y-3">
      <p className="text-[13px] text-ink-soft">{t('details.ports.intro')}</p>
      {sandbox.error && <p className="text-sm text-bad">{explainError(sandbox.error, t)}</p>}
      {sandbox.isSuccess && !running && <p className="text-sm text-ink-soft">{t('details.ports.asleep')}</p>}
      {running && found.length === 0 && <p className="text-sm text-ink-soft">{t('details.ports.none')}</p>}
      <ul className="space-y-2">
        {running &&
          found.map((each) => (
            <Port key={`${each.name} ${each.port}`} sandboxId={conversation.sandbox_id} port={each} />
          ))}
      </ul>
    </div>
  );
}

function Port({ sandboxId, port }: { sandboxId: string; port: Schema['ExposedUrl'] }) {
  const { t } = useTranslation();
  const open = useMutation({ mutationFn: () => openPreview(sandboxId, port.port), meta: { quiet: true } });
  const name = port.name === 'VSCODE' ? t('details.ports.editor') : t('details.ports.port', { port: port.port });
  return (
    <li className="rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span className="font-medium">{name}</span>
        <Button
          small
          icon={<ExternalLink size={14} aria-hidden />}
          aria-label={t('details.ports.openNamed', { name })}
          disabled={open.isPending}
          onClick={() => open.mutate()}
        >
          {t('details.ports.open')}
        </Button>
      </div>
      <p className="mt-1 flex items-center gap-1 text-xs text-ink-soft">
        <code className="min-w-0 font-mono [overflow-wrap:anywhere]">{port.url}</code>
        <CopyButton text={port.url} className="!size-7" />
      </p>
      {open.data && (
        <p className="mt-1 text-sm">
          <a href={open.data} target="_blank" rel="noopener noreferrer" className="text-accent-text underline">
            {t('details.ports.link')}
          </a>
        </p>
      )}
      {open.error && <p className="mt-1 text-sm text-bad">{explainError(open.error, t)}</p>}
    </li>
  );
}
