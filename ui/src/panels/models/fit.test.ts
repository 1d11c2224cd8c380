import { describe, expect, it } from "vitest";
import { answersSlowly, contextBytes, judge, shapeOf } from "./fit";

const GIB = 2 ** 30;
const shape = { layers: 32, kvHeads: 8, keyLength: 128, valueLength: 128 };

describe("memory need", () => {
  it("is 128 KiB a token for 32 layers of 8 heads of 128 in f16", () => {
    expect(contextBytes(shape, 1)).toBe(128 * 1024);
    expect(contextBytes({ layers: 32 }, 1), "unknown without the number of heads").toBeUndefined();
  });

  const check = (weights: number, tokens: number, total: number, free: number, verdict: string, short: number) => {
    const fit = judge(weights, shape, tokens, { totalBytes: total, availableBytes: free });
    expect(fit.verdict, `${weights} and ${tokens} tokens in ${free} of ${total}`).toBe(verdict);
    expect(fit.shortBytes, "missing bytes").toBe(short);
  };

  it("has a verdict for each of the daemon's cases", () => {
    check(4 * GIB, 8192, 16 * GIB, 5 * GIB, "fits", 0);
    check(4 * GIB, 16384, 16 * GIB, 5 * GIB, "slow", GIB);
    check(20 * GIB, 8192, 16 * GIB, 5 * GIB, "too_big", 5 * GIB);
    check(0, 8192, 16 * GIB, 5 * GIB, "unknown", 0);
  });

  it("model that fits can be slow, and one that does not has no speed", () => {
    const speed = (tokens_per_second: number) => {
      const figure = { tokens_per_second, measured: false };
      return { answer: figure, prompt: figure };
    };
    const room = { totalBytes: 16 * GIB, availableBytes: 5 * GIB };
    const slow = (value: number) => answersSlowly(judge(4 * GIB, shape, 4096, room, speed(value)));
    expect([slow(7.9), slow(8)]).toEqual([true, false]);
    expect(judge(9 * GIB, shape, 4096, room, speed(5)).speed, "parts are read from disk").toBeUndefined();
    expect(answersSlowly(judge(4 * GIB, shape, 4096, room)), "no estimate").toBe(false);
  });

  it("shape is read from a file's keys", () => {
    const info = {
      "general.architecture": "llama",
      "llama.block_count": 16,
      "llama.attention.head_count": 32,
      "llama.attention.head_count_kv": [8, 4],
      "llama.embedding_length": 2048,
    };
    expect(shapeOf(info)).toEqual({ layers: 16, kvHeads: 8, keyLength: 64, valueLength: 64 });
    expect(shapeOf({}), "a file without metadata").toEqual({});
  });
});
