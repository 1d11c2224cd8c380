import { describe, expect, it } from "vitest";
import { Heights } from "./virtual";

const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`);

describe("heights", () => {
  it("guesses what was not measured", () => {
    const heights = new Heights(100);
    heights.items(ids(3));
    expect(heights.totalPx).toBe(300);
    expect(heights.set("m0", 40), "forty less than guessed is sixty to move").toBe(-60);
    expect(heights.offsets).toEqual([0, 40, 140, 240]);
    expect(heights.set("m0", 40), "the same again moves nothing").toBe(0);
  });

  it("finds the window in ten thousand", () => {
    const heights = new Heights(100);
    heights.items(ids(10_000));
    expect(heights.range(0, 799)).toEqual([0, 8]);
    expect(heights.range(500_050, 500_250)).toEqual([5000, 5003]);
    expect(heights.range(999_950, 2_000_000)).toEqual([9999, 10_000]);
    const start = performance.now();
    for (let at = 0; at < 100; at += 1) {
      heights.set(`m${at}`, 50 + at);
      heights.range(at * 1000, at * 1000 + 800);
    }
    expect(performance.now() - start, "a hundred measures take no noticeable time").toBeLessThan(500);
  });

  it("has nothing to draw of nothing", () => {
    const heights = new Heights(100);
    heights.items([]);
    expect(heights.range(0, 800)).toEqual([0, 0]);
  });
});
