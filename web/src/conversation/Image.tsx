import clsx from 'clsx';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Button } from '../ui/Button';

const first = 12;
const further = 48;

/** Images of one event, not all of very many at once. */
export function Images({ urls }: { urls: string[] }) {
  const { t } = useTranslation();
  const [shown, setShown] = useState(first);
  return (
    <>
      {urls.slice(0, shown).map((url, i) => (
        <Image key={i} url={url} />
      ))}
      {urls.length > shown && (
        <Button small kind="quiet" onClick={() => setShown(shown + further)}>
          {t('more.images', { count: urls.length - shown })}
        </Button>
      )}
    </>
  );
}

/** An image that is part of the log; those that are elsewhere are only named. */
function Image({ url }: { url: string }) {
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
        decoding="async"
        alt={t('timeline.image')}
        className={clsx('rounded-md border border-line', large ? 'max-w-full' : 'max-h-40 max-w-60 object-contain')}
      />
    </button>
  );
}
