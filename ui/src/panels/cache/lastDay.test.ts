import { expect, it } from "vitest";
import type { CacheHour } from "../../api/types";
import { columns, HOURS } from "./lastDay";

const hour = (at: string, part: Partial<CacheHour>): CacheHour => ({ at, memory_tokens: 0, ram_tokens: 0, ssd_tokens: 0, remote_tokens: 0, computed_tokens: 0, ...part });

it("each hour of the last day has a column, and the highest one fills the chart", () => {
  const now = Date.parse("2026-03-04T10:59:00Z");
  const all = columns([hour("2026-03-04T08:00:00Z", { memory_tokens: 50, computed_tokens: 50 }), hour("2026-03-04T10:00:00Z", { ssd_tokens: 25 }), hour("2026-03-03T10:00:00Z", { ram_tokens: 9 })], now);
  expect(all).toHaveLength(HOURS);
  expect(all.map((one) => one.tokens)).toEqual([...Array<number>(21).fill(0), 100, 0, 25]);
  expect(all[21]?.parts).toEqual([{ place: "device", from: 0, size: 0.5 }, { place: "again", from: 0.5, size: 0.5 }]);
  expect(all[23]).toEqual({ at: "2026-03-04T10:00:00.000Z", tokens: 25, found: 25, parts: [{ place: "ssd", from: 0, size: 0.25 }] });
});

it("a day without prompts has empty columns", () => {
  expect(columns([], 0).every((one) => one.parts.length === 0)).toBe(true);
});
