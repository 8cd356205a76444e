import { Plus, X } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import { Button, IconButton } from '../ui/Button';
import { inputClass } from '../ui/Field';
import { type Pair, pair } from './mcp';

interface Props {
  label: string;
  help?: string;
  pairs: Pair[];
  onChange: (pairs: Pair[]) => void;
}

/** Names with values that are not shown once they are stored: headers, variables. */
export function Pairs({ label, help, pairs, onChange }: Props) {
  const { t } = useTranslation();
  const change = (id: number, to: Partial<Pair>) =>
    onChange(pairs.map((each) => (each.id === id ? { ...each, ...to } : each)));
  return (
    <fieldset>
      <legend className="mb-1 text-sm font-medium">{label}</legend>
      {help && <p className="mb-1.5 text-[13px] text-ink-soft">{help}</p>}
      <ul className="space-y-2">
        {pairs.map((each, i) => (
          <li key={each.id} className="flex gap-2">
            <input
              className={`${inputClass} h-9 min-w-0 flex-1 font-mono`}
              aria-label={`${label}: ${t('setup.pairs.name')} ${i + 1}`}
              placeholder={t('setup.pairs.name')}
              value={each.name}
              readOnly={each.stored}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) => change(each.id, { name: event.target.value })}
            />
            <input
              className={`${inputClass} h-9 min-w-0 flex-1 font-mono`}
              aria-label={`${label}: ${t('setup.pairs.value')} ${i + 1}`}
              placeholder={each.stored ? '••••••••••' : t('setup.pairs.value')}
              value={each.value}
              spellCheck={false}
              autoComplete="off"
              onChange={(event) => change(each.id, { value: event.target.value })}
            />
            <IconButton
              label={t('setup.pairs.remove', { name: each.name || i + 1 })}
              className="mt-0.5"
              onClick={() => onChange(pairs.filter((other) => other.id !== each.id))}
            >
              <X size={15} aria-hidden />
            </IconButton>
          </li>
        ))}
      </ul>
      <Button
        small
        kind="quiet"
        className={pairs.length > 0 ? 'mt-1.5' : ''}
        icon={<Plus size={14} aria-hidden />}
        onClick={() => onChange([...pairs, pair()])}
      >
        {t('setup.pairs.add')}
      </Button>
    </fieldset>
  );
}
