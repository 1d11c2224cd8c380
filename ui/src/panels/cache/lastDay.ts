// Columns of the chart of the last 24 hours: prompt tokens of each hour, by the place of their rows.
import type { CacheHour } from "../../api/types";

export const HOURS = 24;
const HOUR_MS = 3_600_000;

/** Places of rows, from the bottom of a column to its top. */
export const PLACES = ["device", "ram", "ssd", "remote", "again"] as const;
export type Place = (typeof PLACES)[number];

/** A part of a column, as shares of the chart's height. */
export interface Part {
  place: Place;
  from: number;
  size: number;
}

export interface Column {
  /** Start of the hour. */
  at: string;
  tokens: number;
  found: number;
  parts: Part[];
}

/** One column an hour, the current hour last. The highest column has the height 1. */
export function columns(hours: readonly CacheHour[], now: number): Column[] {
  const current = Math.floor(now / HOUR_MS);
  const byHour = new Map(hours.map((one) => [Math.floor(Date.parse(one.at) / HOUR_MS), one]));
  const counted = Array.from({ length: HOURS }, (_, index) => {
    const hour = current - HOURS + 1 + index;
    const one = byHour.get(hour);
    const counts = one === undefined ? [] : [one.memory_tokens, one.ram_tokens, one.ssd_tokens, one.remote_tokens, one.computed_tokens];
    return { at: new Date(hour * HOUR_MS).toISOString(), counts, tokens: counts.reduce((sum, count) => sum + count, 0), found: counts.slice(0, -1).reduce((sum, count) => sum + count, 0) };
  });
  const highest = Math.max(1, ...counted.map((one) => one.tokens));
  return counted.map(({ at, counts, tokens, found }) => {
    let from = 0;
    const parts = counts.flatMap((count, index) => {
      const place = PLACES[index];
      const part = { place, from, size: count / highest };
      from += part.size;
      return count > 0 && place !== undefined ? [{ ...part, place }] : [];
    });
    return { at, tokens, found, parts };
  });
}
