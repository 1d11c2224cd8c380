import { beforeEach, describe, expect, it, vi } from "vitest";

const platform = vi.hoisted(() => ({ kind: "tauri", server: vi.fn() }));
vi.mock("../platform", () => ({ platform }));

import { get } from "./client";
import { live, Live } from "./live.svelte";
import { onRenewed, renew, reopen } from "./session";

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

it("new address in the same tab renews its session, and refused streams continue", async () => {
  platform.kind = "browser";
  platform.server.mockResolvedValue({ address: "http://a" });
  const location = { hash: "", pathname: "/ui/", search: "" };
  vi.stubGlobal("location", location);
  vi.stubGlobal("history", { replaceState: (_state: unknown, _title: string, url: string) => void (location.hash = new URL(url, "http://a").hash) });
  const answer = fetch;
  vi.stubGlobal("fetch", (url: string, options: { headers: Record<string, string> }) => (url.endsWith("/app/session") ? Promise.resolve(new Response('{"token":"one"}')) : answer(url, options as never)));
  const received = vi.fn();
  const refused = live<unknown>("/app/refused");
  const leave = refused.watch(received);
  await vi.waitFor(() => expect(refused.error?.status).toBe(401));
  const heard = vi.fn();
  const forget = onRenewed(heard);
  location.hash = "#t=fresh";
  await renew();
  expect(location.hash, "the ticket is removed").toBe("");
  expect(heard).toHaveBeenCalledOnce();
  await vi.waitFor(() => expect(received).toHaveBeenCalledWith({ well: true }));
  forget();
  leave();
});

it("tab without a session fails once", async () => {
  platform.kind = "browser";
  vi.stubGlobal("location", { hash: "", pathname: "/", search: "" });
  platform.server.mockResolvedValue({ address: "http://a" });
  await expect(get("/app/x")).rejects.toMatchObject({ status: 401 });
  expect(fetched).toHaveBeenCalledTimes(1);
});
