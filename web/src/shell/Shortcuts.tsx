import { useTranslation } from 'react-i18next';
import { Dialog } from '../ui/Dialog';
import { CheckField } from '../ui/Field';
import { setSingleKeys, useSingleKeys } from './keys';

const keys = [
  ['Alt+N', 'new'],
  ['/', 'search'],
  ['?', 'help'],
  ['Enter', 'send'],
  ['Shift+Enter', 'line'],
  ['F8', 'undo'],
] as const;

/** Which keys do what. */
export function Shortcuts({ onDone }: { onDone: () => void }) {
  const { t } = useTranslation();
  const single = useSingleKeys();
  return (
    <Dialog open onOpenChange={onDone} title={t('shortcuts.title')}>
      <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-2 text-sm">
        {keys.map(([key, what]) => (
          <div key={key} className="contents">
            <dt>
              <kbd className="rounded-sm border border-line-strong bg-sunken px-1.5 py-0.5 font-mono text-[13px]">
                {key}
              </kbd>
            </dt>
            <dd>{t(`shortcuts.${what}`)}</dd>
          </div>
        ))}
      </dl>
      <div className="mt-5">
        <CheckField
          label={t('shortcuts.single')}
          help={t('shortcuts.singleHelp')}
          checked={single}
          onChange={(event) => setSingleKeys(event.target.checked)}
        />
      </div>
    </Dialog>
  );
}
