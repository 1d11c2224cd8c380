import { expect, it } from "vitest";
import type { DownloadsApi } from "../../api/downloads";
import type { DiscoveredModel } from "../../api/types";
import { Discover } from "./discover.svelte";

const variant = (name: string, size: number, quantization: string) => ({ name, size, quantization, parameters: "8B", estimated: false, here: false });
const model = (title: string, sizes: number[], part: Partial<DiscoveredModel> = {}): DiscoveredModel => ({
  name: title, title, from: "library", here: false,
  variants: sizes.map((size, at) => variant(`${title}:${at}`, size, ["Q3_K_M", "Q4_K_M", "Q8_0"][at] ?? "F16")),
  ...part,
});

function discover(models: DiscoveredModel[], part: Partial<DownloadsApi> = {}) {
  const calls: string[] = [];
  const api = {
    discover: async (words: string, own: boolean) => (calls.push(`${words || "-"} ${own}`), { models }),
    add: async (name: string) => void calls.push(`add ${name}`),
    ...part,
  } as unknown as DownloadsApi;
  return { calls, discover: new Discover(api) };
}

it("asks nobody outside before words are searched for", async () => {
  const { calls, discover: search } = discover([]);
  await search.catalogue();
  search.words = "  ";
  await search.search();
  search.words = "small coder";
  await search.search();
  search.words = "ollama run qwen3:0.6b";
  await search.search();
  expect(calls, "a pasted name is not searched for").toEqual(["- true", "- true", "small coder false"]);
  expect(search.pasted).toBe("qwen3:0.6b");
});

it("takes what a link brings for a name, until other words are typed", async () => {
  const { calls, discover: search } = discover([]);
  search.follow("qwen3:8b");
  expect(search.pasted).toBe("qwen3:8b");
  await search.search();
  expect(calls, "following a link asks for nothing and pulls nothing").toEqual([]);
  search.words = "qwen3";
  expect(search.pasted).toBeUndefined();
});

it("chooses the best that fits, and what fits goes first", async () => {
  const { discover: search } = discover([model("huge", [900, 950, 990]), model("mixed", [40, 60, 300]), model("odd", [])]);
  await search.catalogue();
  search.room = { totalBytes: 500, availableBytes: 100 };
  expect(search.cards.map((card) => `${card.model.title} ${card.chosen?.name} ${card.fit?.verdict}`)).toEqual([
    "mixed mixed:1 fits",
    "odd undefined undefined",
    "huge huge:0 too_big",
  ]);
  search.freeBytes = 50;
  expect(search.cards[0]?.chosen?.name, "the best that the disk has room for").toBe("mixed:0");
  search.freeBytes = 10;
  expect(search.cards[0]?.chosen?.name, "with room for none, what is short is said of the best").toBe("mixed:1");
  search.choose("mixed", "mixed:2");
  expect(search.cards[0]?.fit?.verdict).toBe("slow");
  search.fitsFirst = false;
  search.sort = "small";
  expect(search.cards.map((card) => card.model.title)).toEqual(["mixed", "huge", "odd"]);
});

it("filters by task, and says what went wrong", async () => {
  const { discover: search } = discover([model("a", [1], { tasks: ["code"] }), model("b", [1])], {
    add: async () => { throw new Error("no such model"); },
  });
  await search.catalogue();
  search.task = "code";
  expect(search.cards.map((card) => card.model.title)).toEqual(["a"]);
  expect(await search.pull("x")).toBe(false);
  expect(search.error).toBe("no such model");
});
