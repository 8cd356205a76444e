import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pencil, PlugZap, Plus } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, ask, type Schema } from '../api/client';
import { settings, useStoreSettings } from '../api/queries';
import { explainError } from '../lib/errors';
import { visible } from '../lib/visible';
import { AreaField } from '../ui/AreaField';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { CheckField, SelectField, TextField } from '../ui/Field';
import { toast } from '../ui/Toast';
import { Entries, Entry } from './Entry';
import { type Draft, draftOf, emptyDraft, isEnabled, type Kind, kindOf, placeOf, type Servers, serverOf } from './mcp';
import { Notice, Refusal } from './Notice';
import { Pairs } from './Pairs';

const kinds: Kind[] = ['http', 'sse', 'stdio'];
const auths: Draft['auth'][] = ['none', 'bearer', 'kept'];

/** Changes the servers that are stored at this time: the API takes all of them at once. */
function useChangeServers() {
  const client = useQueryClient();
  const store = useStoreSettings();
  return useMutation({
    mutationFn: async (change: (servers: Servers) => Servers) => {
      const now = await client.fetchQuery({ ...settings, staleTime: 0 });
      const servers = change({ ...(now?.agent_settings.mcp_config as Servers | undefined) });
      await store.mutateAsync({ agent_settings_diff: { mcp_config: servers } });
    },
    meta: { quiet: true },
  });
}

export function McpSettings() {
  const { t } = useTranslation();
  const stored = useQuery(settings);
  const [editing, setEditing] = useState<string | null>(null); // '' for a new one
  const change = useChangeServers();
  const servers = (stored.data?.agent_settings.mcp_config ?? {}) as Servers;
  const remove = (name: string) =>
    change.mutate((all) => Object.fromEntries(Object.entries(all).filter(([each]) => each !== name)));
  if (stored.error) return <p className="text-bad">{explainError(stored.error, t)}</p>;
  if (stored.isPending) return null;
  return (
    <div className="space-y-6">
      <p className="text-sm text-ink-soft">{t('setup.mcp.intro')}</p>
      <Entries none={t('setup.mcp.none')}>
        {Object.entries(servers).map(([name, server]) => (
          <Entry
            key={name}
            title={name}
            detail={
              <>
                {t(`setup.mcp.kinds.${kindOf(server)}`)}
                {!isEnabled(server) && ` · ${t('setup.mcp.off')}`}
                <span className="line-clamp-2 font-mono text-xs">{visible(placeOf(server))}</span>
              </>
            }
            question={t('setup.mcp.deleteTitle', { name })}
            consequence={t('setup.mcp.deleteText')}
            onDelete={() => remove(name)}
            actions={
              <>
                <Button
                  small
                  aria-label={`${t('setup.edit')}: ${name}`}
                  icon={<Pencil size={13} aria-hidden />}
                  onClick={() => setEditing(name)}
                >
                  {t('setup.edit')}
                </Button>
                <Button
                  small
                  aria-label={`${t(isEnabled(server) ? 'setup.disable' : 'setup.enable')}: ${name}`}
                  disabled={change.isPending}
                  onClick={() =>
                    change.mutate((all) => ({ ...all, [name]: { ...all[name], enabled: !isEnabled(server) } }))
                  }
                >
                  {t(isEnabled(server) ? 'setup.disable' : 'setup.enable')}
                </Button>
              </>
            }
          />
        ))}
      </Entries>
      {change.error && <Refusal text={explainError(change.error, t)} />}
      <Button kind="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setEditing('')}>
        {t('setup.mcp.add')}
      </Button>
      <Dialog
        open={editing !== null}
        onOpenChange={(open) => !open && setEditing(null)}
        title={editing ? t('setup.mcp.editTitle', { name: editing }) : t('setup.mcp.add')}
      >
        {editing !== null && (
          <ServerForm name={editing} stored={servers[editing]} taken={servers} onDone={() => setEditing(null)} />
        )}
      </Dialog>
    </div>
  );
}

interface FormProps {
  name: string; // '' for a new one
  stored: Record<string, unknown> | undefined;
  taken: Servers;
  onDone: () => void;
}

function ServerForm({ name, stored, taken, onDone }: FormProps) {
  const { t } = useTranslation();
  const [draft, setDraft] = useState<Draft>(() => (stored ? draftOf(name, stored) : emptyDraft()));
  const set = (to: Partial<Draft>) => setDraft({ ...draft, ...to });
  const store = useChangeServers();
  const clash = name === '' && draft.name.trim() in taken;
  const save = (event: FormEvent) => {
    event.preventDefault();
    store.mutate((all) => ({ ...all, [draft.name.trim()]: serverOf(draft, all[name]) }), {
      onSuccess: () => {
        toast(t('settings.saved'));
        onDone();
      },
    });
  };
  const g = 'setup.mcp';
  return (
    <form onSubmit={save} className="space-y-4" autoComplete="off">
      <TextField
        label={t(`${g}.name`)}
        help={t(`${g}.nameHelp`)}
        error={clash ? t(`${g}.taken`) : undefined}
        required
        readOnly={name !== ''}
        pattern="[A-Za-z0-9_\-]+"
        value={draft.name}
        spellCheck={false}
        onChange={(event) => set({ name: event.target.value })}
      />
      <SelectField
        label={t(`${g}.kind`)}
        help={t(`${g}.kindHelp.${draft.kind}`)}
        value={draft.kind}
        onChange={(event) => set({ kind: event.target.value as Kind })}
      >
        {kinds.map((kind) => (
          <option key={kind} value={kind}>
            {t(`${g}.kinds.${kind}`)}
          </option>
        ))}
      </SelectField>
      {draft.kind === 'stdio' ? <Program draft={draft} set={set} /> : <Remote draft={draft} set={set} />}
      <details>
        <summary className="text-sm font-medium text-accent-text">{t('setup.more')}</summary>
        <div className="mt-3 space-y-4">
          <TextField
            label={t(`${g}.timeout`)}
            type="number"
            min="1"
            step="1"
            value={draft.timeout}
            onChange={(event) => set({ timeout: event.target.value })}
          />
          {draft.kind === 'stdio' ? (
            <TextField
              label={t(`${g}.cwd`)}
              help={t(`${g}.cwdHelp`)}
              value={draft.cwd}
              spellCheck={false}
              onChange={(event) => set({ cwd: event.target.value })}
            />
          ) : (
            <Pairs
              label={t(`${g}.headers`)}
              help={t(`${g}.secretHelp`)}
              pairs={draft.headers}
              onChange={(headers) => set({ headers })}
            />
          )}
        </div>
      </details>
      <CheckField
        label={t(`${g}.enabled`)}
        help={t(`${g}.enabledHelp`)}
        checked={draft.enabled}
        onChange={(event) => set({ enabled: event.target.checked })}
      />
      {store.error && <Refusal text={explainError(store.error, t)} />}
      <Test draft={draft} stored={stored} />
      <div className="flex flex-wrap justify-end gap-2 border-t border-line pt-4">
        <Button onClick={onDone}>{t('common.cancel')}</Button>
        <Button kind="primary" type="submit" disabled={clash || store.isPending}>
          {t('common.save')}
        </Button>
      </div>
    </form>
  );
}

interface PartProps {
  draft: Draft;
  set: (to: Partial<Draft>) => void;
}

function Program({ draft, set }: PartProps) {
  const { t } = useTranslation();
  const g = 'setup.mcp';
  return (
    <>
      <TextField
        label={t(`${g}.command`)}
        help={t(`${g}.commandHelp`)}
        required
        className="font-mono"
        placeholder="npx"
        value={draft.command}
        spellCheck={false}
        onChange={(event) => set({ command: event.target.value })}
      />
      <AreaField
        label={t(`${g}.args`)}
        help={t(`${g}.argsHelp`)}
        className="font-mono"
        value={draft.args}
        onChange={(event) => set({ args: event.target.value })}
      />
      <Pairs label={t(`${g}.env`)} help={t(`${g}.secretHelp`)} pairs={draft.env} onChange={(env) => set({ env })} />
    </>
  );
}

function Remote({ draft, set }: PartProps) {
  const { t } = useTranslation();
  const [keptBefore] = useState(draft.auth === 'kept');
  const g = 'setup.mcp';
  return (
    <>
      <TextField
        label={t(`${g}.url`)}
        required
        placeholder="https://"
        value={draft.url}
        spellCheck={false}
        onChange={(event) => set({ url: event.target.value })}
      />
      <SelectField
        label={t(`${g}.auth`)}
        value={draft.auth}
        onChange={(event) => set({ auth: event.target.value as Draft['auth'] })}
      >
        {auths.slice(0, keptBefore ? 3 : 2).map((each) => (
          <option key={each} value={each}>
            {t(`${g}.auths.${each}`)}
          </option>
        ))}
      </SelectField>
      {draft.auth === 'bearer' && (
        <TextField
          label={t(`${g}.token`)}
          help={draft.tokenStored ? t(`${g}.tokenStored`) : t(`${g}.secretHelp`)}
          type="password"
          required={!draft.tokenStored}
          placeholder={draft.tokenStored ? '••••••••••' : ''}
          value={draft.token}
          onChange={(event) => set({ token: event.target.value })}
        />
      )}
    </>
  );
}

/** Connects to the server as the form describes it; a program needs a sandbox to run in. */
function Test({ draft, stored }: { draft: Draft; stored: Record<string, unknown> | undefined }) {
  const { t } = useTranslation();
  const program = draft.kind === 'stdio';
  const [chosen, setChosen] = useState('');
  const sandboxes = useQuery({
    queryKey: ['sandboxes', 'running'],
    queryFn: async () =>
      (await ask(api.GET('/api/v1/sandboxes/search', { params: { query: { limit: 100 } } }))).items.filter(
        (each) => each.status === 'RUNNING',
      ),
    enabled: program,
  });
  const sandbox = chosen || sandboxes.data?.[0]?.id || '';
  const test = useMutation({
    mutationFn: () =>
      ask(
        api.POST('/api/v1/mcp/test', {
          body: {
            name: draft.name.trim() || 'test',
            server: serverOf(draft, stored),
            sandbox_id: program ? sandbox : null,
            timeout: 30,
          },
        }),
      ),
    meta: { quiet: true },
  });
  const complete = program ? draft.command.trim() !== '' && sandbox !== '' : draft.url.trim() !== '';
  return (
    <div className="space-y-3">
      {program && sandboxes.data?.length === 0 && (
        <p className="text-[13px] text-ink-soft">{t('setup.mcp.noSandbox')}</p>
      )}
      {program && (sandboxes.data?.length ?? 0) > 0 && (
        <SelectField label={t('setup.mcp.sandbox')} value={sandbox} onChange={(event) => setChosen(event.target.value)}>
          {sandboxes.data?.map((each) => (
            <option key={each.id} value={each.id}>
              {each.id}
            </option>
          ))}
        </SelectField>
      )}
      <Button
        icon={<PlugZap size={15} aria-hidden />}
        disabled={!complete || test.isPending}
        onClick={() => test.mutate()}
      >
        {t(test.isPending ? 'settings.model.testing' : 'settings.model.test')}
      </Button>
      <div role="status">
        {test.data && !test.isPending && <Outcome outcome={test.data} />}
        {test.error && <p className="text-sm whitespace-pre-wrap text-bad">{explainError(test.error, t)}</p>}
      </div>
    </div>
  );
}

const shownTools = 50;

function Outcome({ outcome }: { outcome: Schema['MCPTest'] }) {
  const { t } = useTranslation();
  if (!outcome.ok)
    return (
      <Notice good={false} title={t('setup.mcp.fails')}>
        <p className="whitespace-pre-wrap">{visible(outcome.error ?? '')}</p>
      </Notice>
    );
  const tools = outcome.tools ?? [];
  return (
    <Notice good title={t('setup.mcp.works', { count: tools.length })}>
      {tools.length > 0 && (
        <p className="font-mono text-xs text-ink-soft">
          {tools
            .slice(0, shownTools)
            .map((each) => visible(each.name))
            .join(', ')}
          {tools.length > shownTools && ' …'}
        </p>
      )}
    </Notice>
  );
}
