import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Toasts } from "./toasts.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("toast closes after a while, an error later", () => {
  const toasts = new Toasts();
  toasts.show({ text: "saved" });
  toasts.error("failed");
  vi.advanceTimersByTime(10_000);
  expect(toasts.list.map((toast) => toast.text)).toEqual(["failed"]);
  vi.advanceTimersByTime(10_000);
  expect(toasts.list).toEqual([]);
});

it("toast stays open while it is held", () => {
  const toasts = new Toasts();
  toasts.error("failed");
  const [toast] = toasts.list;
  toasts.hold(toast!);
  vi.advanceTimersByTime(60_000);
  expect(toasts.list).toHaveLength(1);
  toasts.release(toast!);
  vi.advanceTimersByTime(60_000);
  expect(toasts.list).toEqual([]);
});
