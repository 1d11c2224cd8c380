import { expect, it } from "vitest";
import type { HardwareMemory } from "../../api/types";
import { byDisk, diskParts, memoryParts } from "./memory";

const check = (memory: HardwareMemory, expected: string[]) => {
  const parts = memoryParts(memory);
  expect(parts.map((part) => `${part.id} ${part.bytes}`)).toEqual(expected);
  const sum = parts.reduce((all, part) => all + part.bytes, 0);
  expect(sum, "the parts add up").toBe(memory.limit_bytes ?? memory.total_bytes);
};

it("parts add up to the total", () => {
  check(
    { total_bytes: 100, available_bytes: 60, ours_bytes: 30, ours_mapped_bytes: 10, kept_bytes: 5 },
    ["weights 10", "kept 5", "work 15", "others 20", "free 50"],
  );
  check({ total_bytes: 100, available_bytes: 60, kept_bytes: 0 }, ["others 40", "free 60"]);
  check({ total_bytes: 100, limit_bytes: 50, available_bytes: 70, kept_bytes: 0 }, ["free 50"]);
});

it("Cairn's parts never exceed the used memory", () => {
  check({ total_bytes: 100, available_bytes: 95, ours_bytes: 50, ours_mapped_bytes: 10, kept_bytes: 40 }, ["weights 10", "kept 5", "free 85"]);
});

it("used share of a disk needs its size", () => {
  expect(diskParts({ holds: "cache", path: "/", total_bytes: 10, free_bytes: 4 })).toEqual({ usedBytes: 6, totalBytes: 10 });
  expect(diskParts({ holds: "cache", path: "/", free_bytes: 4 })).toBeUndefined();
});

it("folders of one disk share a card", () => {
  const disk = (holds: "models" | "cache" | "data", path: string, total_bytes?: number) => ({ holds, path, ...(total_bytes ? { total_bytes, free_bytes: 4 } : {}) });
  const disks = byDisk([disk("models", "/m", 10), disk("cache", "/c", 20), disk("data", "/d", 10), disk("models", "/x"), disk("cache", "/y")]);
  expect(disks.map(({ folders, parts }) => [folders.map((one) => one.path).join(" "), parts?.usedBytes])).toEqual([["/m /d", 6], ["/c", 16], ["/x", undefined], ["/y", undefined]]);
});
