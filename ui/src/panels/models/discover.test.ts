import { expect, it } from "vitest";
import type { DownloadsApi } from "../../api/downloads";
import type { DiscoveredModel } from "../../api/types";
import { Discover } from "./discover.svelte";
import { errorText } from "../../i18n";

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

it("no host is contacted before a search", async () => {
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

it("name from a link is kept until other words are typed", async () => {
  const { calls, discover: search } = discover([]);
  search.follow("qwen3:8b");
  expect(search.pasted).toBe("qwen3:8b");
  await search.search();
  expect(calls, "following a link requests and pulls nothing").toEqual([]);
  search.words = "qwen3";
  expect(search.pasted).toBeUndefined();
});

it("default variant is the largest for the total memory, and fitting models come first", async () => {
  const { discover: search } = discover([model("huge", [900, 950, 990]), model("mixed", [40, 60, 300]), model("odd", [])]);
  await search.catalogue();
  search.room = { totalBytes: 100, availableBytes: 100 };
  expect(search.cards.map((card) => `${card.model.title} ${card.chosen?.name} ${card.fit?.verdict}`)).toEqual([
    "mixed mixed:1 fits",
    "odd undefined undefined",
    "huge huge:0 too_big",
  ]);
  search.room = { totalBytes: 100, availableBytes: 10 };
  expect(search.cards[0]?.chosen?.name, "free memory does not change the default").toBe("mixed:1");
  search.freeBytes = 50;
  expect(search.cards[0]?.chosen?.name, "the largest that the disk has room for").toBe("mixed:0");
  search.freeBytes = 10;
  expect(search.cards[0]?.chosen?.name, "with room for none, the missing space is shown for the largest").toBe("mixed:1");
  search.room = { totalBytes: 500, availableBytes: 100 };
  search.choose("mixed", "mixed:2");
  expect(search.cards[0]?.fit?.verdict).toBe("slow");
  search.fitsFirst = false;
  search.sort = "small";
  expect(search.cards.map((card) => card.model.title)).toEqual(["mixed", "huge", "odd"]);
});

it("default variant is at most 8 GB without a GPU", async () => {
  const { discover: search } = discover([model("sizes", [5e9, 8e9, 20e9]), model("only-big", [43e9])]);
  await search.catalogue();
  const chosen = () => search.cards.map((card) => card.chosen?.size);
  expect(chosen(), "before the memory size has loaded").toEqual([8e9, 43e9]);
  search.room = { totalBytes: 512e9, availableBytes: 400e9, hasGpu: false };
  expect(chosen(), "an only variant stays").toEqual([8e9, 43e9]);
  search.room = { totalBytes: 512e9, availableBytes: 400e9, hasGpu: true };
  expect(chosen()).toEqual([20e9, 43e9]);
});

it("default variant is the largest that answers fast enough", async () => {
  const sizes = model("sizes", [5e9, 9e9, 20e9]);
  const speed = (tokens_per_second: number) => ({ answer: { tokens_per_second, measured: false }, prompt: { tokens_per_second, measured: false } });
  sizes.variants = sizes.variants.map((one, at) => ({ ...one, speed: speed([15, 8.5, 3][at] ?? 1) }));
  const slow = model("slow", [5e9, 6e9]);
  slow.variants = slow.variants.map((one) => ({ ...one, speed: speed(2) }));
  const { discover: search, calls } = discover([slow, sizes]);
  await search.catalogue();
  search.room = { totalBytes: 64e9, availableBytes: 60e9 };
  expect(search.cards.map((card) => card.chosen?.size), "the smallest if all are slow; fast models first").toEqual([9e9, 5e9]);
  await search.speedsChanged();
  search.words = "small";
  await search.search();
  await search.speedsChanged();
  expect(calls, "a search is not repeated").toEqual(["- true", "- true", "small false"]);
});

it("cards are filtered by task, and errors are reported", async () => {
  const { discover: search } = discover([model("a", [1], { tasks: ["code"] }), model("b", [1])], {
    add: async () => { throw new Error("no such model"); },
  });
  await search.catalogue();
  search.task = "code";
  expect(search.cards.map((card) => card.model.title)).toEqual(["a"]);
  expect(await search.pull("x")).toBe(false);
  expect(errorText(search.error)).toBe("no such model");
});
