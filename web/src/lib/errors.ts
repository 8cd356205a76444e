import type { TFunction } from 'i18next';
import { ApiError } from '../api/client';

/** What went wrong, for people: the server's own words where it said some. */
export function explainError(error: unknown, t: TFunction): string {
  if (!(error instanceof ApiError)) return t('error.unexpected');
  if (error.status === 0) return t('error.unreachable');
  return error.message || t('error.status', { status: error.status });
}
