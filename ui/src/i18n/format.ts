// Formatting of quantities for people: always with a unit, and with few digits.
import { keyed, type Language, locale, number, t } from "./locale.svelte";

const STEPS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Bytes in powers of 1,000, as disk sizes: `857 MB`, `4.2 GB`. */
export function bytes(value: number): string {
  let step = 0;
  let rest = value;
  while (rest >= 999.5 && step < STEPS.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${number(rest, rest < 10 && step > 1 ? 1 : 0)} ${STEPS[step]}`;
}

/** Replaces large byte counts in a text of the daemon: `8978227200 bytes` becomes `9 GB`. */
export function inBytes(text: string): string {
  return text.replace(/\b(\d{7,})\b( bytes)?/g, (_, digits: string) => bytes(Number(digits)));
}

export function speed(bytesPerSecond: number): string {
  return t("common.per_second", { value: bytes(bytesPerSecond) });
}

/** A measured speed `12 tok/s`, or an estimate `≈ 12 tok/s`. */
export function tokenSpeed({ tokens_per_second: value, measured }: { tokens_per_second: number; measured: boolean }): string {
  const shown = t("common.tokens_per_second", { value: number(value, value < (measured ? 10 : 2) ? 1 : 0) });
  return measured ? shown : t("common.estimate", { value: shown });
}

/** A duration: `180 ms`, `0.26 s`, `11 s`, `3 min`, `2 h 5 min`. */
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

/** Short token counts: `12.6k`, `2.88M`. */
export function tokens(value: number): string {
  if (value < 1000) return number(value);
  if (value >= 999_500) return `${number(value / 1_000_000, value < 9_995_000 ? 2 : 1)}M`;
  return `${number(value / 1000, value < 100_000 ? 1 : 0)}k`;
}

const KIB_TOKENS = 1024;

/** A context size, as models state it: `4k` for 4,096, `1M` for 1,048,576. */
export function contextSize(value: number): string {
  if (value < KIB_TOKENS || value % KIB_TOKENS !== 0) return tokens(value);
  const thousands = value / KIB_TOKENS;
  return thousands % KIB_TOKENS === 0 ? `${number(thousands / KIB_TOKENS)}M` : `${number(thousands)}k`;
}

const FORMS = {
  // Without an hour cycle, English writes 24 for the hour after midnight.
  time: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  clock: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  weekday: { weekday: "short" },
  day: { day: "numeric", month: "short" },
  date: { day: "numeric", month: "short", year: "numeric" },
  moment: { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;
const dates = keyed((language: Language) => keyed((form: keyof typeof FORMS) => new Intl.DateTimeFormat(language, FORMS[form])));

/** A short date: the time today, the day this week, else the date. */
export function when(time: string, now: Date = new Date()): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  const days = dayNumber(now) - dayNumber(date);
  const form = days <= 0 ? "time" : days < 7 ? "weekday" : date.getFullYear() === now.getFullYear() ? "day" : "date";
  return dates(locale.current)(form).format(date);
}

/** Time of day to the second, for logs. */
export function clock(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? "" : dates(locale.current)("clock").format(date);
}

/** Number of the day in local time, for differences. */
export function dayNumber(date: Date): number {
  return Math.floor((date.getTime() - date.getTimezoneOffset() * 60_000) / 86_400_000);
}

/** Full date and time, for tooltips. */
export function moment(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return "";
  return dates(locale.current)("moment").format(date);
}
