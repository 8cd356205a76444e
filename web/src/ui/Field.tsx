import clsx from 'clsx';
import { type ComponentProps, type ReactNode, useId } from 'react';

export const inputClass =
  'w-full rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm text-ink disabled:opacity-60 aria-invalid:border-bad';

interface FieldProps {
  label: ReactNode;
  help?: ReactNode;
  error?: string;
  children: (props: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: true }) => ReactNode;
}

/** A labelled control, with help and errors that are read out with it. */
export function Field({ label, help, error, children }: FieldProps) {
  const id = useId();
  const described = [help ? `${id}-help` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ');
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      {children({
        id,
        ...(described ? { 'aria-describedby': described } : {}),
        ...(error ? { 'aria-invalid': true as const } : {}),
      })}
      {help && (
        <p id={`${id}-help`} className="mt-1 text-[13px] text-ink-soft">
          {help}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} className="mt-1 text-[13px] text-bad">
          {error}
        </p>
      )}
    </div>
  );
}

export function TextField({
  label,
  help,
  error,
  className,
  ...rest
}: ComponentProps<'input'> & Omit<FieldProps, 'children'>) {
  return (
    <Field label={label} help={help} error={error}>
      {(props) => <input className={clsx(inputClass, 'h-9', className)} {...props} {...rest} />}
    </Field>
  );
}

export function SelectField({
  label,
  help,
  error,
  children,
  ...rest
}: ComponentProps<'select'> & Omit<FieldProps, 'children'>) {
  return (
    <Field label={label} help={help} error={error}>
      {(props) => (
        <select className={clsx(inputClass, 'h-9')} {...props} {...rest}>
          {children}
        </select>
      )}
    </Field>
  );
}

export function CheckField({ label, help, ...rest }: ComponentProps<'input'> & { label: ReactNode; help?: ReactNode }) {
  const id = useId();
  return (
    <div className="flex gap-2.5">
      <input
        id={id}
        type="checkbox"
        className="mt-1 size-4 shrink-0 accent-accent"
        aria-describedby={help ? `${id}-help` : undefined}
        {...rest}
      />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {help && (
          <p id={`${id}-help`} className="text-[13px] text-ink-soft">
            {help}
          </p>
        )}
      </div>
    </div>
  );
}
