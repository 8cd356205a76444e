import type { TFunction } from 'i18next';
import { ApiError } from '../api/client';
import { labelOf, relabel } from './labels';

/** What went wrong, for people: the server's own words where it said some. */
export function explainError(error: unknown, t: TFunction): string {
  if (!(error instanceof ApiError)) return t('error.unexpected');
  if (error.status === 0) return t('error.unreachable');
  if (error.fields.length > 0)
    return error.fields
      .map(({ path, text }) => {
        const label = labelOf(path, t);
        const said = relabel(text.replace(/^Value error, /, ''), t);
        return label === '' ? said : `${label}: ${said}`;
      })
      .join('\n');
  return relabel(error.message, t) || t('error.status', { status: error.status });
}
