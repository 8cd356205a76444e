import { Tooltip as Radix } from 'radix-ui';
import type { ReactElement } from 'react';

export const TooltipProvider = Radix.Provider;

export function Tooltip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          sideOffset={5}
          collisionPadding={8}
          className="z-50 max-w-72 rounded-sm bg-ink px-2 py-1 text-xs text-canvas shadow-raised"
        >
          {text}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
