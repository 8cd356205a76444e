import clsx from 'clsx';
import type { ComponentProps, ReactNode } from 'react';
import { Field, inputClass } from './Field';

/** Text of several lines. */
export function AreaField({
  label,
  help,
  error,
  className,
  ...rest
}: ComponentProps<'textarea'> & { label: ReactNode; help?: ReactNode; error?: string }) {
  return (
    <Field label={label} help={help} error={error}>
      {(props) => <textarea rows={3} spellCheck={false} className={clsx(inputClass, className)} {...props} {...rest} />}
    </Field>
  );
}
