import { beforeEach, describe, expect, it, vi } from "vitest";

const shell = vi.hoisted(() => ({ kind: "tauri", server: vi.fn() }));
vi.mock("../shell", () => ({ shell }));

import { get } from "./client";
import { Live } from "./live.svelte";
import { reopen } from "./session";

/** The daemon that runs: where it is, and its token. */
let runs = { address: "http://a", token: "one" };
const asked = vi.fn();

beforeEach(() => {
  reopen();
  asked.mockReset();
  runs = { address: "http://a", token: "one" };
  shell.kind = "tauri";
  shell.server.mockReset();
  shell.server.mockImplementation(() => Promise.resolve({ ...runs }));
  vi.stubGlobal("fetch", (url: string, { headers }: { headers: Record<string, string> }) => {
    asked(url);
    if (!url.startsWith(runs.address)) return Promise.reject(new TypeError("nobody is there"));
    const own = headers["Authorization"] === `Bearer ${runs.token}`;
    return Promise.resolve(new Response(own ? '{"well":true}\n' : '{"error":"this needs the token"}', { status: own ? 200 : 401 }));
  });
});

describe("a daemon that is started anew", () => {
  it("is asked with its own token", async () => {
    expect(await get("/app/x")).toEqual({ well: true });
    runs = { ...runs, token: "two" };
    expect(await get("/app/x"), "the shell knows it").toEqual({ well: true });
    expect(shell.server).toHaveBeenCalledTimes(2);
  });

  it("is found at another address", async () => {
    await get("/app/x");
    runs = { address: "http://b", token: "two" };
    await expect(get("/app/x"), "the request that finds nobody fails").rejects.toMatchObject({ status: 0 });
    expect(await get("/app/x")).toEqual({ well: true });
  });

  it("is listened to again, also where the shell hears of it late", async () => {
    const heard = vi.fn();
    const live = new Live<unknown>("/app/events");
    shell.server.mockImplementation(() => Promise.resolve({ address: "http://a", token: "old" }));
    const leave = live.watch(heard);
    await vi.waitFor(() => expect(live.error?.status).toBe(401));
    shell.server.mockImplementation(() => Promise.resolve({ ...runs }));
    await vi.waitFor(() => expect(heard).toHaveBeenCalled(), { timeout: 5000 });
    leave();
  });
});

it("a tab without a session is told so, once", async () => {
  shell.kind = "browser";
  vi.stubGlobal("location", { hash: "", pathname: "/", search: "" });
  shell.server.mockResolvedValue({ address: "http://a" });
  await expect(get("/app/x")).rejects.toMatchObject({ status: 401 });
  expect(asked).toHaveBeenCalledTimes(1);
});
