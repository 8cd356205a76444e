import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type { Conversation } from '../api/client';
import { useRename } from '../api/queries';
import { Button } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { TextField } from '../ui/Field';

export function Rename({ conversation, onDone }: { conversation: Conversation; onDone: () => void }) {
  const { t } = useTranslation();
  const [title, setTitle] = useState(conversation.title);
  const rename = useRename();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (title.trim() !== '') rename.mutate({ id: conversation.id, title: title.trim() }, { onSuccess: onDone });
  };
  return (
    <Dialog open onOpenChange={onDone} title={t('list.renameTitle')}>
      <form onSubmit={submit} className="space-y-4">
        <TextField
          label={t('list.titleLabel')}
          value={title}
          maxLength={200}
          onChange={(event) => setTitle(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onDone}>{t('common.cancel')}</Button>
          <Button kind="primary" type="submit" disabled={title.trim() === '' || rename.isPending}>
            {t('common.save')}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
