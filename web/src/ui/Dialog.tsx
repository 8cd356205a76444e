import clsx from 'clsx';
import { X } from 'lucide-react';
import { Dialog as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { IconButton } from './Button';

interface Props {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  children: ReactNode;
  wide?: boolean;
}

/**
 * A dialog over the page. The veil is not Radix's own: that one locks scrolling with an
 * inline style, which the page's policy refuses, and the page itself never scrolls.
 */
export function Dialog({ open, onOpenChange, title, children, wide = false }: Props) {
  const { t } = useTranslation();
  return (
    <Radix.Root open={open} onOpenChange={onOpenChange}>
      <Radix.Portal>
        <div className="fixed inset-0 z-40 bg-veil" />
        <Radix.Content
          aria-describedby={undefined}
          onOpenAutoFocus={(event) => {
            // Not Close, whose tooltip would take the first Escape.
            event.preventDefault();
            if (event.currentTarget instanceof HTMLElement) event.currentTarget.focus();
          }}
          className={clsx(
            'fixed top-1/2 left-1/2 z-50 max-h-[90dvh] -translate-x-1/2 -translate-y-1/2 overflow-y-auto rounded-lg border border-line bg-raised p-5 shadow-raised outline-none',
            wide ? 'w-[min(60rem,calc(100vw-1.5rem))]' : 'w-[min(32rem,calc(100vw-1.5rem))]',
          )}
        >
          <div className="mb-3 flex items-center justify-between gap-2">
            <Radix.Title className="text-base font-semibold">{title}</Radix.Title>
            <Radix.Close asChild>
              <IconButton label={t('common.close')}>
                <X size={16} aria-hidden />
              </IconButton>
            </Radix.Close>
          </div>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
