import { CheckCircle2, Circle, CircleDot } from 'lucide-react';
import { useTranslation } from 'react-i18next';
import type { Task } from './fold';

/** The agent's list of tasks, folded to how far it is. */
export function Plan({ tasks }: { tasks: Task[] }) {
  const { t } = useTranslation();
  if (tasks.length === 0) return null;
  const done = tasks.filter((task) => task.status === 'done').length;
  const current = tasks.find((task) => task.status === 'in_progress');
  return (
    <details className="rounded-md border border-line bg-canvas text-sm">
      <summary className="flex items-center gap-2 rounded-md px-3 py-1.5 hover:bg-hover">
        <span className="font-medium">{t('plan.title', { done, total: tasks.length })}</span>
        {current && <span className="min-w-0 truncate text-ink-soft">{current.title}</span>}
      </summary>
      <ol className="max-h-56 space-y-1 overflow-y-auto px-3 pb-2">
        {tasks.map((task, i) => (
          <li key={i} className="flex gap-2">
            <Mark status={task.status} />
            <span className="min-w-0">
              <span className={task.status === 'done' ? 'text-ink-soft line-through' : ''}>{task.title}</span>
              {task.notes !== '' && <span className="block text-[13px] text-ink-soft">{task.notes}</span>}
            </span>
          </li>
        ))}
      </ol>
    </details>
  );
}

function Mark({ status }: { status: string }) {
  const { t } = useTranslation();
  if (status === 'done')
    return <CheckCircle2 size={15} role="img" aria-label={t('plan.done')} className="mt-0.5 shrink-0 text-good" />;
  if (status === 'in_progress')
    return <CircleDot size={15} role="img" aria-label={t('plan.current')} className="mt-0.5 shrink-0 text-info" />;
  return <Circle size={15} role="img" aria-label={t('plan.todo')} className="mt-0.5 shrink-0 text-ink-faint" />;
}
