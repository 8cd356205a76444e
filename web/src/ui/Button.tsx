import clsx from 'clsx';
import type { ComponentProps, ReactNode } from 'react';
import { Tooltip } from './Tooltip';

const kinds = {
  primary: 'bg-accent text-accent-ink hover:bg-accent-strong border border-transparent font-medium',
  plain: 'bg-surface text-ink border border-line-strong hover:bg-hover',
  quiet: 'text-ink-soft hover:bg-hover hover:text-ink border border-transparent',
  danger: 'bg-surface text-bad border border-bad hover:bg-bad-soft',
};

type Props = ComponentProps<'button'> & { kind?: keyof typeof kinds; icon?: ReactNode; small?: boolean };

export function Button({ kind = 'plain', icon, small = false, className, children, type = 'button', ...rest }: Props) {
  return (
    <button
      type={type}
      className={clsx(
        'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md whitespace-nowrap transition-colors disabled:opacity-50',
        small ? 'h-7 px-2 text-[13px]' : 'h-9 px-3.5 text-sm',
        kinds[kind],
        className,
      )}
      {...rest}
    >
      {icon}
      {children}
    </button>
  );
}

/** A button that is an icon, with its name as a tooltip. */
export function IconButton({
  label,
  className,
  children,
  type = 'button',
  ...rest
}: Omit<ComponentProps<'button'>, 'aria-label'> & { label: string }) {
  return (
    <Tooltip text={label}>
      <button
        type={type}
        aria-label={label}
        className={clsx(
          'inline-flex size-8 shrink-0 items-center justify-center rounded-md text-ink-soft transition-colors hover:bg-hover hover:text-ink disabled:opacity-50',
          className,
        )}
        {...rest}
      >
        {children}
      </button>
    </Tooltip>
  );
}
