// Quantities as people read them: units always, no more digits than mean something.
import { locale, number, t } from "./locale.svelte";

const STEPS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Bytes in powers of 1,000, as disks and downloads are sold: `857 MB`, `4.2 GB`. */
export function bytes(value: number): string {
  let step = 0;
  let rest = value;
  while (rest >= 999.5 && step < STEPS.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${number(rest, rest < 10 && step > 1 ? 1 : 0)} ${STEPS[step]}`;
}

export function speed(bytesPerSecond: number): string {
  return t("common.per_second", { value: bytes(bytesPerSecond) });
}

/** A length of time: `180 ms`, `0.26 s`, `11 s`, `3 min`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms === 0) return t("common.s", { value: 0 });
  if (ms < 1) return t("common.ms", { value: number(ms, 1) });
  if (ms < 200) return t("common.ms", { value: number(ms) });
  if (ms < 10_000) return t("common.s", { value: number(ms / 1000, ms < 1000 ? 2 : 1) });
  if (ms < 90_000) return t("common.s", { value: number(ms / 1000) });
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return t("common.min", { value: minutes });
  return t("common.h_min", { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

export function percent(part: number, whole: number): string {
  return t("common.percent", { value: whole > 0 ? Math.floor((part / whole) * 100) : 0 });
}

/** Tokens where room is short: `12.6k`. */
export function tokens(value: number): string {
  if (value < 1000) return number(value);
  return `${number(value / 1000, value < 100_000 ? 1 : 0)}k`;
}

/** A moment, as short as it is clear: the time today, the day this week, else the date. */
export function when(time: string, now: Date = new Date()): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  const days = dayNumber(now) - dayNumber(date);
  const language = locale.current;
  if (days <= 0) return new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hour12: false }).format(date);
  if (days < 7) return new Intl.DateTimeFormat(language, { weekday: "short" }).format(date);
  const year = date.getFullYear() === now.getFullYear() ? {} : { year: "numeric" as const };
  return new Intl.DateTimeFormat(language, { day: "numeric", month: "short", ...year }).format(date);
}

/** Days since some day, in local time. */
export function dayNumber(date: Date): number {
  return Math.floor((date.getTime() - date.getTimezoneOffset() * 60_000) / 86_400_000);
}

/** A moment in full, for tooltips. */
export function moment(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  return new Intl.DateTimeFormat(locale.current, { dateStyle: "medium", timeStyle: "short" }).format(date);
}
