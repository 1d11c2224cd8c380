import { expect, it } from "vitest";
import { vectorCounts } from "./progress";

it("vectors are counted while they are computed", () => {
  expect(vectorCounts({ state: "embedding", done: 2, total: 5 })).toEqual({ done: 2, total: 5 });
  expect(vectorCounts({ state: "ready" })).toEqual({ done: 0, total: 0 });
});
