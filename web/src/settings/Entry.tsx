import { Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';

interface Props {
  title: string;
  detail: ReactNode;
  question: string;
  consequence: string;
  onDelete: () => void;
  actions?: ReactNode; // beside Delete
  children?: ReactNode; // below
}

/** One stored thing, which can be deleted after a question. */
export function Entry({ title, detail, question, consequence, onDelete, actions, children }: Props) {
  const { t } = useTranslation();
  const [asking, setAsking] = useState(false);
  return (
    <li className="px-3 py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <div className={`min-w-0 flex-1 ${actions ? 'basis-56' : ''}`}>
          <p className="truncate text-sm font-medium">{title}</p>
          <div className="text-[13px] text-ink-soft [overflow-wrap:anywhere]">{detail}</div>
        </div>
        <div className="flex flex-wrap gap-1.5">
          {actions}
          <Button
            small
            kind="danger"
            icon={<Trash2 size={14} aria-hidden />}
            onClick={() => setAsking(true)}
            aria-label={`${t('list.delete')}: ${title}`}
          >
            {t('list.delete')}
          </Button>
        </div>
      </div>
      {children}
      <Dialog open={asking} onOpenChange={setAsking} title={question}>
        <p className="text-sm">{consequence}</p>
        <div className="mt-4 flex justify-end gap-2">
          <Button onClick={() => setAsking(false)}>{t('common.cancel')}</Button>
          <Button
            kind="danger"
            onClick={() => {
              setAsking(false);
              onDelete();
            }}
          >
            {t('list.delete')}
          </Button>
        </div>
      </Dialog>
    </li>
  );
}

export function Entries({ none, children }: { none: string; children: ReactNode[] }) {
  if (children.length === 0) return <p className="text-sm text-ink-soft">{none}</p>;
  return <ul className="divide-y divide-line rounded-lg border border-line">{children}</ul>;
}
