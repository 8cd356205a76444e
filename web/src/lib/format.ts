import { useEffect, useState } from 'react';

// Formats are dear to make, and rows of a long list have several each.
const made = new Map<string, unknown>();
function once<T>(language: string, what: string, make: () => T): T {
  const name = `${language} ${what}`;
  let format = made.get(name) as T | undefined;
  if (format === undefined) {
    format = make();
    made.set(name, format);
  }
  return format;
}

/** The time of a day, in hours and minutes. */
export function clock(time: Date, language: string): string {
  const make = () => new Intl.DateTimeFormat(language, { hour: '2-digit', minute: '2-digit' });
  return Number.isNaN(time.getTime()) ? '' : once(language, 'clock', make).format(time);
}

/** A day and the time of it; nothing for what is no time. */
export function moment(time: Date, language: string): string {
  const make = () => new Intl.DateTimeFormat(language, { dateStyle: 'short', timeStyle: 'medium' });
  return Number.isNaN(time.getTime()) ? '' : once(language, 'moment', make).format(time);
}

/** Dollars, with enough digits for small amounts. */
export function money(amount: number, language: string): string {
  const digits = amount === 0 || amount >= 1 ? 2 : amount >= 0.01 ? 3 : 5;
  const make = () =>
    new Intl.NumberFormat(language, {
      style: 'currency',
      currency: 'USD',
      currencyDisplay: 'narrowSymbol',
      minimumFractionDigits: 2,
      maximumFractionDigits: digits,
    });
  return once(language, `money ${digits}`, make).format(amount);
}

export function count(value: number, language: string): string {
  const notation = value >= 10_000 ? 'compact' : 'standard';
  const make = () => new Intl.NumberFormat(language, { notation, maximumFractionDigits: 1 });
  return once(language, `count ${notation}`, make).format(value);
}

export function bytes(value: number, language: string): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const;
  let at = 0;
  let left = value;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at++;
  }
  return new Intl.NumberFormat(language, {
    style: 'unit',
    unit: units[at] ?? 'byte',
    unitDisplay: 'short',
    maximumFractionDigits: left < 10 ? 1 : 0,
  }).format(left);
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

export function ago(then: Date, now: number, language: string): string {
  const seconds = (then.getTime() - now) / 1000;
  const make = () => new Intl.RelativeTimeFormat(language, { numeric: 'auto', style: 'short' });
  const format = once(language, 'ago', make);
  for (const [unit, size] of steps)
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  return format.format(0, 'second');
}

/** The name of a repository without what every address of one has. */
export function repositoryName(repository: string): string {
  return repository.replace(/^https?:\/\//, '').replace(/\.git$/, '');
}

/** Seconds as people say them: 0.4 s, 12 s, 3 min 5 s. */
export function duration(seconds: number, language: string): string {
  const unit = (value: number, name: string, digits: number) => {
    const make = () =>
      new Intl.NumberFormat(language, {
        style: 'unit',
        unit: name,
        unitDisplay: 'short',
        maximumFractionDigits: digits,
      });
    return once(language, `${name} ${digits}`, make).format(value);
  };
  if (seconds < 10) return unit(Math.max(0, seconds), 'second', 1);
  if (seconds < 60) return unit(Math.round(seconds), 'second', 0);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${unit(minutes, 'minute', 0)} ${unit(Math.round(seconds % 60), 'second', 0)}`;
  return `${unit(Math.floor(minutes / 60), 'hour', 0)} ${unit(minutes % 60, 'minute', 0)}`;
}

/** Times of events carry no zone: they are UTC. */
export function eventTime(timestamp: string): Date {
  return new Date(/Z|[+-]\d\d:\d\d$/.test(timestamp) ? timestamp : `${timestamp}Z`);
}

/** The time now, renewed every so often. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
