import { expect, it } from "vitest";
import { clock, contextSize, duration, inBytes, tokens, tokenSpeed, when } from "./format";

it("large byte counts of a text become sizes", () => {
  const replaced = (text: string) => inBytes(text).replaceAll("\u00a0", " ");
  expect(replaced("no space is left: 8978227200 bytes are free, 13527658700 stay so")).toBe("no space is left: 9 GB are free, 14 GB stay so");
  expect(replaced("chunk 12 of 4096 bytes")).toBe("chunk 12 of 4096 bytes");
});

it("token counts are shortened to thousands and millions", () => {
  expect([7, 12_600, 430_000, 999_499, 999_500, 2_880_000, 41_230_000].map(tokens)).toEqual(["7", "12.6k", "430k", "999k", "1M", "2.88M", "41.2M"]);
});

it("context sizes are stated in powers of two", () => {
  expect([512, 2048, 4096, 131_072, 1_048_576, 5500].map(contextSize)).toEqual(["512", "2k", "4k", "128k", "1M", "5.5k"]);
});

it("day begins with hour 0", () => {
  const midnight = new Date(2026, 10, 22, 0, 5, 9);
  expect(when(midnight.toISOString(), midnight)).toBe("00:05");
  expect(clock(midnight.toISOString())).toBe("00:05:09");
  expect(clock("never")).toBe("");
});

it("estimated speed has a mark and fewer digits", () => {
  const shown = (tokens_per_second: number, measured: boolean) => tokenSpeed({ tokens_per_second, measured });
  expect([shown(12.34, true), shown(8.46, true)]).toEqual(["12 tok/s", "8.5 tok/s"]);
  expect([shown(12.34, false), shown(8.46, false), shown(0.64, false)]).toEqual(["≈ 12 tok/s", "≈ 8 tok/s", "≈ 0.6 tok/s"]);
});

it("duration shows its most significant units", () => {
  expect([0, 0.4, 180, 260, 11_000, 200_000, 7_500_000].map(duration)).toEqual(["0 s", "0.4 ms", "180 ms", "0.26 s", "11 s", "3 min", "2 h 5 min"]);
});
