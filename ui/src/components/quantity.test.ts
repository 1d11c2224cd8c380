import { expect, it } from "vitest";
import { numberOf, readBytes, readSpan, writeBytes, writeSpan } from "./quantity";

it("sizes are parsed as people type them", () => {
  const rows: [string, number | undefined][] = [
    ["4 GB", 4e9], ["512M", 512e6], ["0", 0], ["1.5 tb", 1.5e12], ["1,5 GB", 1.5e9], ["4 GiB", 2 ** 32], ["12,000", 12000],
    ["", undefined], ["much", undefined], ["-4 GB", undefined], ["4 GX", undefined],
  ];
  for (const [text, bytes] of rows) expect(readBytes(text), text).toBe(bytes);
});

it("written sizes can be parsed", () => {
  for (const text of ["4 GB", "512 MB", "1.5 TB", "0 B", "20 kB"]) expect(writeBytes(readBytes(text)!)).toBe(text);
  expect(writeBytes(2 ** 32)).toBe("4.29 GB");
});

it("whole numbers within their bounds are parsed", () => {
  const check = (text: string, whole: boolean, expected: number | undefined): void => expect(numberOf(text, { min: 0, max: undefined, whole }), text).toBe(expected);
  check("2.5", true, 3);
  check("2.5", false, 2.5);
  check("-4", true, 0);
  check("1e300", true, Number.MAX_SAFE_INTEGER);
  check(" ", true, undefined);
  check("much", false, undefined);
});

it("durations of one unit have a number and a unit", () => {
  const UNITS = ["m", "h"];
  expect(readSpan("5m", UNITS)).toEqual({ count: 5, unit: "m" });
  expect(writeSpan({ count: 12, unit: "h" })).toBe("12h");
  for (const text of ["30d", "1h30m", "-1", "never", "", "5", "99999999999m"]) expect(readSpan(text, UNITS), text).toBeUndefined();
});
