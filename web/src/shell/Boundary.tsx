import { Component, type ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Button } from '../ui/Button';

/**
 * Says that a part of the page broke, in place of leaving it empty. Often a new version
 * of the server no longer has the part of the old page that was to be loaded.
 */
export class Boundary extends Component<{ children: ReactNode }, { broken: boolean }> {
  override state = { broken: false };

  static getDerivedStateFromError(): { broken: boolean } {
    return { broken: true };
  }

  override render(): ReactNode {
    return this.state.broken ? <Broken /> : this.props.children;
  }
}

function Broken() {
  const { t } = useTranslation();
  return (
    <div role="alert" className="flex flex-1 flex-col items-center justify-center gap-3 p-6 text-center">
      <h1 className="text-lg font-semibold">{t('broken.title')}</h1>
      <p className="max-w-prose text-ink-soft">{t('broken.text')}</p>
      <Button kind="primary" onClick={() => location.reload()}>
        {t('broken.reload')}
      </Button>
    </div>
  );
}
