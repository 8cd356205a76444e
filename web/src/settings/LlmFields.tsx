import { useTranslation } from 'react-i18next';
import { AreaField } from '../ui/AreaField';
import { SelectField, TextField } from '../ui/Field';
import {
  type Field,
  type FieldGroup,
  type FieldKey,
  type HelpKey,
  isObjectText,
  type LlmDraft,
  mainFields,
  moreFields,
} from './llm';
import { ModelField } from './ModelField';
import { Pairs } from './Pairs';

interface Props {
  draft: LlmDraft;
  keySet: boolean;
  onChange: (draft: LlmDraft) => void;
}

/** Everything that can be said about a model. */
export function LlmFields({ draft, keySet, onChange }: Props) {
  const { t } = useTranslation();
  const row = (field: Field) => (
    <OneField
      key={field.key}
      field={field}
      value={draft.values[field.key] ?? ''}
      onChange={(value) => onChange({ ...draft, values: { ...draft.values, [field.key]: value } })}
    />
  );
  return (
    <>
      <ModelField
        label={t('settings.model.model')}
        help={t('settings.model.modelHelp')}
        placeholder="anthropic/claude-..."
        required
        value={draft.model}
        onModel={(model) => onChange({ ...draft, model })}
      />
      <TextField
        label={t('settings.model.key')}
        help={keySet ? t('settings.model.keySet') : t('settings.model.keyHelp')}
        type="password"
        autoComplete="off"
        placeholder={keySet ? '••••••••••' : ''}
        value={draft.key}
        onChange={(event) => onChange({ ...draft, key: event.target.value })}
      />
      <TextField
        label={t('settings.model.url')}
        help={t('settings.model.urlHelp')}
        type="url"
        placeholder="https://"
        value={draft.url}
        onChange={(event) => onChange({ ...draft, url: event.target.value })}
      />
      {mainFields.map(row)}
      <details>
        <summary className="text-sm font-medium text-accent-text">{t('setup.more')}</summary>
        <div className="mt-4 space-y-7">
          {(Object.keys(moreFields) as FieldGroup[]).map((group) => (
            <fieldset key={group} className="space-y-4">
              <legend className="mb-2 text-sm font-semibold">{t(`setup.llm.groups.${group}`)}</legend>
              {moreFields[group].map(row)}
              {group === 'place' && (
                <Pairs
                  label={t('setup.llm.headers')}
                  pairs={draft.headers}
                  onChange={(headers) => onChange({ ...draft, headers })}
                />
              )}
            </fieldset>
          ))}
        </div>
      </details>
    </>
  );
}

interface OneProps {
  field: Field;
  value: string;
  onChange: (value: string) => void;
}

function OneField({ field, value, onChange }: OneProps) {
  const { t } = useTranslation();
  const label = t(`setup.llm.fields.${field.key as FieldKey}`);
  const help = field.help ? t(`setup.llm.help.${field.key as HelpKey}`) : undefined;
  switch (field.kind) {
    case 'choice':
    case 'switch':
      return (
        <SelectField label={label} help={help} value={value} onChange={(event) => onChange(event.target.value)}>
          <option value="">{t('setup.llm.unset')}</option>
          {field.kind === 'switch' ? (
            <>
              <option value="on">{t('setup.llm.on')}</option>
              <option value="off">{t('setup.llm.off')}</option>
            </>
          ) : (
            field.choices?.map((each) => <option key={each}>{each}</option>)
          )}
        </SelectField>
      );
    case 'json':
      return (
        <AreaField
          label={label}
          help={help}
          error={isObjectText(value) ? undefined : t('setup.llm.noObject')}
          className="font-mono"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case 'number':
    case 'whole':
      return (
        <TextField
          label={label}
          help={help}
          type="number"
          min={field.key === 'seed' ? undefined : 0}
          max={field.max}
          step={field.kind === 'whole' ? 1 : 'any'}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    default:
      return (
        <TextField
          label={label}
          help={help}
          type={field.kind === 'secret' ? 'password' : 'text'}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      );
  }
}
