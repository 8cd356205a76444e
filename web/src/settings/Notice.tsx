import { CircleCheck, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';

/** How a test went. */
export function Notice({ good, title, children }: { good: boolean; title: ReactNode; children?: ReactNode }) {
  return (
    <div className={`flex gap-2.5 rounded-md px-3 py-2.5 text-sm ${good ? 'bg-good-soft' : 'bg-bad-soft'}`}>
      {good ? (
        <CircleCheck size={17} aria-hidden className="mt-0.5 shrink-0 text-good" />
      ) : (
        <TriangleAlert size={17} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      )}
      <div className="min-w-0 flex-1 [overflow-wrap:anywhere]">
        <p className={`font-medium ${good ? 'text-good' : 'text-bad'}`}>{title}</p>
        {children}
      </div>
    </div>
  );
}

/** Why something was not stored. */
export function Refusal({ text }: { text: string }) {
  return (
    <p role="alert" className="text-sm whitespace-pre-wrap text-bad [overflow-wrap:anywhere]">
      {text}
    </p>
  );
}
