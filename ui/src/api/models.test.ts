import { afterEach, expect, it, vi } from "vitest";

const api = vi.hoisted(() => ({ tags: vi.fn(), loaded: vi.fn() }));
vi.mock("./models", () => ({ models: api }));

import { Models } from "./models.svelte";
import type { PsModel } from "./types";

afterEach(() => vi.useRealTimers());

const at = (seconds: number, name = "a"): PsModel => ({ name, expires_at: new Date(Date.now() + seconds * 1000).toISOString() }) as PsModel;

it("loaded models are requested again when the first of them expires", async () => {
  vi.useFakeTimers();
  const models = new Models();
  api.loaded.mockResolvedValue([]);
  models.takeLoaded([at(300), at(60, "b")]);
  await vi.advanceTimersByTimeAsync(59_000);
  expect(api.loaded).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(models.loaded).toEqual([]);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(api.loaded, "nothing is loaded, so nothing expires").toHaveBeenCalledOnce();
});

it("wrong clock and a model that never expires cause few requests", async () => {
  vi.useFakeTimers();
  const models = new Models();
  api.loaded.mockReset();
  api.loaded.mockImplementation(() => Promise.resolve([at(-1_000)]));
  models.takeLoaded([at(-1_000)]);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(api.loaded.mock.calls.length).toBe(6);
  api.loaded.mockReset();
  models.takeLoaded([at(1e9)]);
  await vi.advanceTimersByTimeAsync(3_000_000);
  expect(api.loaded).not.toHaveBeenCalled();
});
