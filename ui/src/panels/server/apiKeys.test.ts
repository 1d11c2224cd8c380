import { expect, it } from "vitest";
import type { KeysApi, KeyScope, ListedKey } from "../../api/keys";
import { ApiKeys } from "./apiKeys.svelte";

/** A daemon with keys in memory. */
function daemon(): KeysApi & { requests: [string, readonly KeyScope[]][] } {
  let stored: ListedKey[] = [];
  const requests: [string, readonly KeyScope[]][] = [];
  return {
    requests,
    list: async () => ({ keys: [...stored] }),
    create: async (name, scopes) => {
      if (stored.some((key) => key.name === name)) throw new Error("taken");
      requests.push([name, scopes]);
      stored.push({ name, scopes: [...scopes], created_at: "2026-01-02T03:04:05Z" });
      return { key: "cairn_00" };
    },
    revoke: async (name) => ((stored = stored.filter((key) => key.name !== name)), { keys: [...stored] }),
  };
}

it("created key is shown until the form is reset, and is listed without its text", async () => {
  const api = daemon();
  const keys = new ApiKeys(api);
  await keys.load();
  expect(keys.list).toEqual([]);
  expect(keys.ready, "no name yet").toBe(false);
  keys.name = " phone ";
  keys.choose("models", true);
  expect(await keys.create()).toBe(true);
  expect(api.requests).toEqual([["phone", ["chat", "models"]]]);
  expect(keys.created).toBe("cairn_00");
  expect(JSON.stringify(keys.list), "the list has no text of a key").not.toContain("cairn_");
  keys.reset();
  expect([keys.created, keys.name, keys.scopes]).toEqual([undefined, "", ["chat"]]);
  expect(await keys.revoke("phone")).toBe(true);
  expect(keys.list).toEqual([]);
});

it("admin includes the other scopes", async () => {
  const api = daemon();
  const keys = new ApiKeys(api);
  keys.choose("admin", true);
  expect((["chat", "models", "metrics", "admin"] as const).map((scope) => keys.has(scope))).toEqual([true, true, true, true]);
  keys.name = "laptop";
  await keys.create();
  expect(api.requests).toEqual([["laptop", ["admin"]]]);
});

it("form needs a valid name and a scope", () => {
  const keys = new ApiKeys(daemon());
  const check = (name: string, valid: boolean, ready: boolean): void => {
    keys.name = name;
    expect([keys.isNameValid, keys.ready], name).toEqual([valid, ready]);
  };
  check("", true, false);
  check("open-webui.2_x", true, true);
  check("two words", false, false);
  check("x".repeat(65), false, false);
  check("手机", false, false);
  check("-phone", false, false);
  keys.name = "phone";
  keys.choose("chat", false);
  expect(keys.ready, "no scope").toBe(false);
});

it("failed creation keeps the form and can be repeated", async () => {
  const keys = new ApiKeys(daemon());
  keys.name = "phone";
  await keys.create();
  keys.reset();
  keys.name = "phone";
  expect(await keys.create()).toBe(false);
  expect([String(keys.error), keys.created, keys.name, keys.ready]).toEqual(["Error: taken", undefined, "phone", true]);
});
