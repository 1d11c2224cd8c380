import { expect, it } from "vitest";
import { Flows } from "./flows";

const MB = 1e6;
const status = (stored: number, restored: number, prompt = 0, cached = 0) => ({
  tiers: [{ tier: "ssd", stored_bytes: stored, restored_bytes: restored, queued_bytes: 7 }],
  prompt_tokens: prompt,
  cached_tokens: cached,
});

it("tells what moved over the last seconds", () => {
  const flows = new Flows();
  flows.add(0, status(0, 0));
  flows.add(2_000, status(30 * MB, 3 * MB));
  expect(flows.of("ssd", 2_500)).toEqual({ storedPerSecond: 10 * MB, restoredPerSecond: MB, queuedBytes: 7 });
  expect(flows.of("ssd", 5_000).storedPerSecond, "nothing came for a while: nothing moves").toBe(0);
  expect(flows.of("remote", 2_500), "there is no such tier").toEqual({ storedPerSecond: 0, restoredPerSecond: 0, queuedBytes: 0 });
});

it("tells the share of what was remembered lately", () => {
  const flows = new Flows();
  expect(flows.recentShare(0), "nobody asked anything").toBeUndefined();
  flows.add(0, status(0, 0, 1_000, 0));
  flows.add(1_000, status(0, 0, 2_000, 900));
  expect(flows.recentShare(1_000)).toBe(0.9);
  flows.add(400_000, status(0, 0, 3_000, 900));
  expect(flows.recentShare(400_000), "what is long ago does not count").toBe(0);
});

it("forgets a daemon that was started anew", () => {
  const flows = new Flows();
  flows.add(0, status(90 * MB, 0, 5_000, 4_000));
  flows.add(1_000, status(0, 0, 10, 0));
  expect(flows.of("ssd", 1_000).storedPerSecond).toBe(0);
  expect(flows.recentShare(1_000)).toBeUndefined();
});
