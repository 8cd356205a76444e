import type { Schema } from '../api/client';

/** What a sandbox took at a time, and how many CPUs it kept busy since the sample before. */
export interface Sample {
  at: number; // milliseconds
  usage: Schema['SandboxUsage'];
  cpus: number | null; // null: not known yet
}

/** The server counts seconds of CPU; what is taken now is what two samples differ by. */
export function sampleOf(before: Sample | null, usage: Schema['SandboxUsage'], at: number): Sample {
  const was = before?.usage.cpu_seconds ?? null;
  const seconds = before === null ? 0 : (at - before.at) / 1000;
  if (was === null || usage.cpu_seconds === null || seconds < 0.5)
    return { at, usage, cpus: usage.cpu_seconds === null ? null : (before?.cpus ?? null) };
  // Counters begin anew when a sandbox is started again.
  return { at, usage, cpus: Math.max(0, usage.cpu_seconds - was) / seconds };
}
