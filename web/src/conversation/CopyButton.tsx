import { Check, Copy } from 'lucide-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { IconButton } from '../ui/Button';
import { toastError } from '../ui/Toast';

export function CopyButton({ text, className }: { text: string; className?: string }) {
  const { t } = useTranslation();
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      toastError(t('common.notCopied')); // pages without TLS have no clipboard
    }
  };
  return (
    <IconButton label={done ? t('common.copied') : t('common.copy')} className={className} onClick={() => void copy()}>
      {done ? <Check size={15} aria-hidden /> : <Copy size={15} aria-hidden />}
    </IconButton>
  );
}
