import { expect, it } from "vitest";
import { wait } from "./wait";

it("wait for the first token names the load of the model, then the prompt", () => {
  expect(wait("pebble:latest", false, 0)).toBeUndefined();
  expect(wait("pebble:latest", false, 2)).toBe("Loading pebble, 2 s");
  expect(wait("pebble:latest", true, 75)).toBe("Reading the prompt, 75 s");
  expect(wait(undefined, false, 2)).toBe("Reading the prompt, 2 s");
});
