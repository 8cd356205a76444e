import clsx from 'clsx';
import { DropdownMenu as Radix } from 'radix-ui';
import type { ReactElement, ReactNode } from 'react';

/** A menu at a button. It is not modal: the page stays usable beside it. */
export function Menu({ trigger, children }: { trigger: ReactElement; children: ReactNode }) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          className="z-50 min-w-44 rounded-md border border-line bg-raised p-1 shadow-raised"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const itemClass =
  'flex w-full items-center gap-2 rounded-sm px-2.5 py-1.5 text-sm outline-none data-[highlighted]:bg-hover data-[disabled]:opacity-50';

export function MenuItem({
  icon,
  danger = false,
  disabled = false,
  onSelect,
  children,
}: {
  icon?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
  children: ReactNode;
}) {
  return (
    <Radix.Item disabled={disabled} onSelect={onSelect} className={clsx(itemClass, danger ? 'text-bad' : 'text-ink')}>
      {icon}
      {children}
    </Radix.Item>
  );
}

export function MenuChoice<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: Record<T, string>;
  onChange: (value: T) => void;
}) {
  return (
    <>
      <Radix.Label className="px-2.5 pt-1.5 pb-0.5 text-xs text-ink-faint">{label}</Radix.Label>
      <Radix.RadioGroup value={value} onValueChange={(next) => onChange(next as T)}>
        {(Object.keys(options) as T[]).map((each) => (
          <Radix.RadioItem
            key={each}
            value={each}
            className={clsx(itemClass, 'text-ink data-[state=checked]:font-semibold')}
          >
            <span aria-hidden className="w-3 text-accent-text">
              {each === value ? '✓' : ''}
            </span>
            {options[each]}
          </Radix.RadioItem>
        ))}
      </Radix.RadioGroup>
    </>
  );
}

export function MenuSeparator() {
  return <Radix.Separator className="my-1 h-px bg-line" />;
}
