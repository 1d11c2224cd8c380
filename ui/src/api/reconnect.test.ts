import { beforeEach, describe, expect, it, vi } from "vitest";

const platform = vi.hoisted(() => ({ kind: "tauri", server: vi.fn() }));
vi.mock("../platform", () => ({ platform }));

import { get } from "./client";
import { Live } from "./live.svelte";
import { reopen } from "./session";

/** The running daemon: its address and token. */
let runs = { address: "http://a", token: "one" };
const fetched = vi.fn();

beforeEach(() => {
  reopen();
  fetched.mockReset();
  runs = { address: "http://a", token: "one" };
  platform.kind = "tauri";
  platform.server.mockReset();
  platform.server.mockImplementation(() => Promise.resolve({ ...runs }));
  vi.stubGlobal("fetch", (url: string, { headers }: { headers: Record<string, string> }) => {
    fetched(url);
    if (!url.startsWith(runs.address)) return Promise.reject(new TypeError("connection refused"));
    const own = headers["Authorization"] === `Bearer ${runs.token}`;
    return Promise.resolve(new Response(own ? '{"well":true}\n' : '{"error":"this needs the token"}', { status: own ? 200 : 401 }));
  });
});

describe("restarted daemon", () => {
  it("requests use its new token", async () => {
    expect(await get("/app/x")).toEqual({ well: true });
    runs = { ...runs, token: "two" };
    expect(await get("/app/x"), "the platform has it").toEqual({ well: true });
    expect(platform.server).toHaveBeenCalledTimes(2);
  });

  it("is found at another address", async () => {
    await get("/app/x");
    runs = { address: "http://b", token: "two" };
    await expect(get("/app/x"), "the request to the old address fails").rejects.toMatchObject({ status: 0 });
    expect(await get("/app/x")).toEqual({ well: true });
  });

  it("live streams reconnect, even if the platform learns of it late", async () => {
    const received = vi.fn();
    const live = new Live<unknown>("/app/events");
    platform.server.mockImplementation(() => Promise.resolve({ address: "http://a", token: "old" }));
    const leave = live.watch(received);
    await vi.waitFor(() => expect(live.error?.status).toBe(401));
    platform.server.mockImplementation(() => Promise.resolve({ ...runs }));
    await vi.waitFor(() => expect(received).toHaveBeenCalled(), { timeout: 5000 });
    leave();
  });
});

it("tab without a session fails once", async () => {
  platform.kind = "browser";
  vi.stubGlobal("location", { hash: "", pathname: "/", search: "" });
  platform.server.mockResolvedValue({ address: "http://a" });
  await expect(get("/app/x")).rejects.toMatchObject({ status: 401 });
  expect(fetched).toHaveBeenCalledTimes(1);
});
