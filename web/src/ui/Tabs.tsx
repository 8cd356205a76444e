import { Tabs as Radix } from 'radix-ui';
import { type ReactNode, useEffect, useRef } from 'react';

interface Props {
  value: string;
  onChange: (value: string) => void;
  label: string;
  tabs: { value: string; label: ReactNode; content: ReactNode }[];
}

export function Tabs({ value, onChange, label, tabs }: Props) {
  const list = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: which one is chosen shows in the page
  useEffect(() => {
    // On a phone not all of them fit.
    list.current?.querySelector('[data-state=active]')?.scrollIntoView?.({ block: 'nearest', inline: 'center' });
  }, [value]);
  return (
    <Radix.Root value={value} onValueChange={onChange} className="flex min-h-0 flex-1 flex-col">
      <Radix.List
        ref={list}
        aria-label={label}
        className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-2"
      >
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px border-b-2 border-transparent px-3 py-2 text-sm whitespace-nowrap text-ink-soft hover:text-ink focus-visible:-outline-offset-2 data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.value} value={tab.value} className="min-h-0 flex-1 overflow-y-auto">
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
