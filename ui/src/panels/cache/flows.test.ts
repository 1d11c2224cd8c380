import { expect, it } from "vitest";
import { Flows } from "./flows";

const MB = 1e6;
const status = (stored: number, restored: number, prompt = 0, cached = 0) => ({
  tiers: [{ tier: "ssd", stored_bytes: stored, restored_bytes: restored, queued_bytes: 7 }],
  prompt_tokens: prompt,
  cached_tokens: cached,
});

it("rates cover the last seconds", () => {
  const flows = new Flows();
  flows.add(0, status(0, 0));
  flows.add(2_000, status(30 * MB, 3 * MB));
  expect(flows.of("ssd", 2_500)).toEqual({ storedPerSecond: 10 * MB, restoredPerSecond: MB, queuedBytes: 7 });
  expect(flows.of("ssd", 5_000).storedPerSecond, "silence means a rate of zero").toBe(0);
  expect(flows.of("remote", 2_500), "an unknown tier").toEqual({ storedPerSecond: 0, restoredPerSecond: 0, queuedBytes: 0 });
});

it("share of reused tokens covers the last minutes", () => {
  const flows = new Flows();
  expect(flows.recentShare(0), "no prompts").toBeUndefined();
  flows.add(0, status(0, 0, 1_000, 0));
  flows.add(1_000, status(0, 0, 2_000, 900));
  expect(flows.recentShare(1_000)).toBe(0.9);
  flows.add(400_000, status(0, 0, 3_000, 900));
  expect(flows.recentShare(400_000), "older prompts do not count").toBe(0);
});

it("restarted daemon resets the rates", () => {
  const flows = new Flows();
  flows.add(0, status(90 * MB, 0, 5_000, 4_000));
  flows.add(1_000, status(0, 0, 10, 0));
  expect(flows.of("ssd", 1_000).storedPerSecond).toBe(0);
  expect(flows.recentShare(1_000)).toBeUndefined();
});
