import { expect, it } from "vitest";
import { announced, loading, reading, wait } from "./wait";

it("wait for the first token names the load of the model, then the prompt", () => {
  expect(wait("pebble:latest", false, 0)).toBeUndefined();
  expect(wait("pebble:latest", false, 2)).toBe("Loading pebble, 2 s");
  expect(wait("pebble:latest", true, 75)).toBe("Reading the prompt, 75 s");
  expect(wait(undefined, false, 2)).toBe("Reading the prompt, 2 s");
});

it("progress of the weights has bytes", () => {
  expect(loading("qwen3:latest", { bytes: 1.2e9, total_bytes: 4.9e9 })).toBe("Loading qwen3, 1.2 GB of 4.9 GB");
});

it("progress of a prompt has tokens and the time left", () => {
  const progress = (tokens: number, left_ms?: number) => ({ tokens, total_tokens: 2600, ...(left_ms === undefined ? {} : { left_ms }) });
  expect(reading(progress(0), 0)).toBe("Reading 0 of 2,600 tokens");
  expect(reading(progress(1240, 12_400), 0)).toBe("Reading 1,240 of 2,600 tokens, ≈ 12 s left");
  expect(reading(progress(1240, 12_400), 3), "counted down").toBe("Reading 1,240 of 2,600 tokens, ≈ 9.0 s left".replace("9.0", "9"));
  expect(reading(progress(1240, 12_400), 30), "late").toBe("Reading 1,240 of 2,600 tokens, ≈ 1 s left");
});

it("screen readers hear quarters of the progress", () => {
  const heard = [0, 100, 700, 1299, 1300, 2599].map((tokens) => announced({ tokens, total_tokens: 2600 }));
  expect(heard).toEqual(["Reading the prompt", "Reading the prompt", "Reading the prompt, 25 %", "Reading the prompt, 25 %", "Reading the prompt, 50 %", "Reading the prompt, 75 %"]);
});
