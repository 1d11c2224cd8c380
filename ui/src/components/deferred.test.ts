import { expect, it, vi } from "vitest";
import { Deferred } from "./deferred.svelte";

it("deferred action runs after its delay unless it is undone", async () => {
  vi.useFakeTimers();
  const done: string[] = [];
  const deferred = new Deferred(1000);
  const add = (key: string) => deferred.later(key, key, async () => void done.push(key));
  add("a");
  add("b");
  deferred.takeBack("a");
  expect(deferred.waiting.map((one) => one.key)).toEqual(["b"]);
  await vi.advanceTimersByTimeAsync(999);
  expect(done).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(done).toEqual(["b"]);
  expect(deferred.waiting).toEqual([]);
  add("c");
  await deferred.flush();
  await vi.advanceTimersByTimeAsync(5000);
  expect(done, "once only").toEqual(["b", "c"]);
  vi.useRealTimers();
});
