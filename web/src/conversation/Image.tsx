import clsx from 'clsx';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

/** An image that is part of the log; those that are elsewhere are only named. */
export function Image({ url }: { url: string }) {
  const { t } = useTranslation();
  const [large, setLarge] = useState(false);
  if (!/^data:image\/(png|jpeg|gif|webp);/.test(url)) {
    return (
      <span className="rounded-md border border-dashed border-line-strong px-2 py-1 text-[13px] [overflow-wrap:anywhere]">
        {url.slice(0, 200)}
      </span>
    );
  }
  return (
    <button type="button" onClick={() => setLarge(!large)} aria-expanded={large} aria-label={t('timeline.image')}>
      <img
        src={url}
        alt={t('timeline.image')}
        className={clsx('rounded-md border border-line', large ? 'max-w-full' : 'max-h-40 max-w-60 object-contain')}
      />
    </button>
  );
}
