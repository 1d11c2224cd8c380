import { expect, it, vi } from "vitest";
import { checkLength, contextTokens } from "./tooLong";

const words = (bytes: number): string => "x".repeat(bytes);

it("short message fits without counting tokens", async () => {
  const count = vi.fn(async () => 9999);
  expect(await checkLength(words(4000), 4096, 8192, count)).toBe("fits");
  expect(await checkLength(words(90_000), undefined, undefined, count), "unknown context size").toBe("fits");
  expect(count).not.toHaveBeenCalled();
});

it("long message is counted, and a larger context is offered where there is one", async () => {
  const check = (tokens: number, most: number | undefined) => checkLength(words(90_000), 4096, most, async () => tokens);
  expect(await check(4000, 131_072)).toBe("fits");
  expect(await check(5000, 131_072)).toEqual({ tokens: 5000, room: 4096, larger: 8192 });
  expect(await check(8000, 131_072), "with room for an answer").toEqual({ tokens: 8000, room: 4096, larger: 16_384 });
  expect(await check(5000, 4096)).toEqual({ tokens: 5000, room: 4096, larger: undefined });
  expect(await check(9000, 8192)).toEqual({ tokens: 9000, room: 4096, larger: undefined });
});

it("context of a chat is its own option within the model's limit", () => {
  expect(contextTokens({}, 4096, 8192)).toBe(4096);
  expect(contextTokens({ num_ctx: 6000 }, 4096, 8192)).toBe(6000);
  expect(contextTokens({ num_ctx: 60_000 }, 4096, 8192)).toBe(8192);
  expect(contextTokens({ num_ctx: 0 }, 4096, 8192)).toBe(4096);
});
