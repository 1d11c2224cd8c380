import { expect, test } from "vitest";
import { ApiError, type RequestOptions } from "./client";
import { Live } from "./live.svelte";

test("watchers are notified when lines may have been missed", async () => {
  const received: string[] = [];
  // Offline at first, then a stream of one line that ends, then one that stays open.
  let opens = 0;
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  async function* open(_method: string, _path: string, { opened }: RequestOptions = {}): AsyncGenerator<string> {
    opens += 1;
    if (opens === 1) throw new ApiError(0, "away");
    opened?.();
    yield `line ${opens}`;
    if (opens > 2) await released;
  }
  const live = new Live<string>("/x", open as never);
  const leave = live.watch(
    (line) => received.push(line),
    () => received.push("again"),
  );
  await expect.poll(() => received, { timeout: 5000 }).toEqual(["again", "line 2", "again", "line 3"]);
  expect(live.error).toBeUndefined();
  live.suspend(true);
  live.suspend(false);
  await expect.poll(() => received.slice(4), { timeout: 5000 }).toEqual(["again", "line 4"]);
  leave();
  release();
});
