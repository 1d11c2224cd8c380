import { expect, it } from "vitest";
import { limitCombiningMarks } from "./combiningMarks";

it("a few combining marks are kept, thousands are removed", () => {
  const check = (text: string, expected: string): void => expect(limitCombiningMarks(text)).toBe(expected);
  check("e\u0301 \u1EBF Za\u0300\u0301lgo \u0E17\u0E35\u0E48 \u0928\u093F", "e\u0301 \u1EBF Za\u0300\u0301lgo \u0E17\u0E35\u0E48 \u0928\u093F");
  check(`a${"\u0301".repeat(100_000)}b`, `a${"\u0301".repeat(16)}b`);
  check(`a${"\u0301\u0302".repeat(50)} b${"\u0301".repeat(50)}`, `a${"\u0301\u0302".repeat(8)} b${"\u0301".repeat(16)}`);
});

it("result for a prefix is a prefix of the result", () => {
  const whole = `x ${"\u0301".repeat(40)} y`;
  for (let end = 0; end <= whole.length; end += 1) expect(limitCombiningMarks(whole).startsWith(limitCombiningMarks(whole.slice(0, end)))).toBe(true);
});
