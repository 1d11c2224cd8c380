import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Speeds } from "./speeds.svelte";
import type { SpeedsResponse } from "./types";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const figure = (tokens_per_second: number) => ({ tokens_per_second, measured: false });
const models = [{ model: "pebble:latest", speed: { answer: figure(100), prompt: figure(1000) } }];

it("speeds are requested again until the kernels are measured", async () => {
  const answers: SpeedsResponse[] = [{ models: [], measuring: true }, { models: [], measuring: true }, { models, measuring: false }];
  const ask = vi.fn(async () => answers.shift() ?? { models, measuring: false });
  const speeds = new Speeds(ask);
  await speeds.refresh();
  expect([speeds.measuring, speeds.of("pebble")]).toEqual([true, undefined]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect([ask.mock.calls.length, speeds.measuring]).toEqual([3, false]);
  expect(speeds.of("pebble")?.answer.tokens_per_second, "the tag is optional").toBe(100);
});

it("a daemon that measures for ever, or is away, is not asked for ever", async () => {
  const ask = vi.fn(async () => ({ models: [], measuring: true }));
  const speeds = new Speeds(ask);
  await speeds.refresh();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([ask.mock.calls.length, speeds.measuring]).toEqual([16, false]);
  const away = new Speeds(() => Promise.reject(new Error("offline")));
  await away.refresh();
  expect(away.measuring).toBe(false);
});
