import { expect, it } from "vitest";
import { windows } from "./rows";

const shown = { above: 0, groups: [3, 5000, 10], rowPx: 30, top: 0, viewPx: 600 };

it("visible rows and a margin are drawn", () => {
  const check = (more: Partial<typeof shown>, expected: [number, number][], why: string): void => expect(windows({ ...shown, ...more }), why).toEqual(expected);
  check({}, [[0, 3], [0, 27], [0, 0]], "the beginning");
  check({ top: 3000 }, [[3, 3], [83, 127], [0, 0]], "a place within");
  check({ top: 200_000 }, [[3, 3], [5000, 5000], [10, 10]], "below the end");
  check({ top: 5000 * 30 }, [[3, 3], [4983, 5000], [0, 10]], "the end");
  check({ above: 100 }, [[0, 0], [0, 0], [0, 0]], "all of it is below the folders");
});

it("number of drawn rows is bounded", () => {
  for (let top = 0; top < 155_000; top += 77) {
    const rows = windows({ ...shown, top }).reduce((sum, [from, to]) => sum + to - from, 0);
    expect(rows, `at ${top}`).toBeLessThan(60);
  }
});
