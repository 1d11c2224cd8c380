import { describe, expect, it } from "vitest";
import { Heights } from "./virtual";

const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `m${at}`);

describe("heights", () => {
  it("items without a measured height use the estimate", () => {
    const heights = new Heights(100);
    heights.items(ids(3));
    expect(heights.totalPx).toBe(300);
    expect(heights.set("m0", 40), "forty less than estimated moves by sixty").toBe(-60);
    expect(heights.offsets).toEqual([0, 40, 140, 240]);
    expect(heights.set("m0", 40), "an equal height moves nothing").toBe(0);
  });

  it("visible window of ten thousand items is found", () => {
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
    expect(performance.now() - start, "a hundred measurements take no noticeable time").toBeLessThan(500);
  });

  it("empty list has an empty window", () => {
    const heights = new Heights(100);
    heights.items([]);
    expect(heights.range(0, 800)).toEqual([0, 0]);
  });
});
