import { expect, it } from "vitest";
import { KEY, STANDARD, UiSettings, type UiValues } from "./uiSettings.svelte";
import { ApiError } from "./client";
import type { Setting, SettingsResponse } from "./types";

/** A daemon with a settings table that can be offline or refuse, and a browser's storage. */
function world(stored?: string) {
  const table: Record<string, unknown> = { "ui.theme": "system", "ui.language": "system", "ui.text_size": 100, "cache.ram": 5 };
  const storage = new Map(stored === undefined ? [] : [[KEY, stored]]);
  const daemon = { problem: undefined as ApiError | undefined, writes: [] as unknown[] };
  const answer = (): SettingsResponse => {
    if (daemon.problem) throw daemon.problem;
    return { settings: Object.entries(table).map(([key, value]) => ({ key, value }) as Setting) } as SettingsResponse;
  };
  const api = {
    read: async () => answer(),
    write: async (change: Record<string, unknown>) => {
      daemon.writes.push(change);
      if (daemon.problem) throw daemon.problem;
      Object.assign(table, change);
      return answer();
    },
    storage: { getItem: (key: string) => storage.get(key) ?? null, setItem: (key: string, value: string) => void storage.set(key, value) },
  };
  const stored2 = () => JSON.parse(storage.get(KEY) ?? "null") as { values: UiValues; unsent: Partial<UiValues> } | null;
  return { table, daemon, api, stored: stored2 };
}

it("starts with the stored values, then uses the daemon's", async () => {
  const { api, table, stored } = world('{"values":{"theme":"dark","text_size":"big","unheard":1}}');
  const settings = new UiSettings(api);
  expect(settings.values, "a value of another type is ignored").toEqual({ ...STANDARD, theme: "dark" });
  table["ui.theme"] = "light";
  await settings.load();
  expect(settings.values.theme).toBe("light");
  expect(stored()?.values.theme, "for the next first paint").toBe("light");
});

it("change applies at once and is sent to the daemon", async () => {
  const { api, table, daemon } = world();
  const settings = new UiSettings(api);
  const change = settings.set({ theme: "dark", language: "zh-CN" });
  expect(settings.values.theme, "before the daemon answers").toBe("dark");
  await change;
  expect(daemon.writes).toEqual([{ "ui.theme": "dark", "ui.language": "zh-CN" }]);
  expect(table["ui.language"]).toBe("zh-CN");
});

it.each([0, 401])("change is storage while the daemon is offline (%i) and sent later", async (status) => {
  const { api, table, daemon, stored } = world();
  const settings = new UiSettings(api);
  daemon.problem = new ApiError(status, "gone");
  await settings.set({ theme: "dark" });
  expect(settings.values.theme).toBe("dark");
  await expect(settings.load()).rejects.toThrow("gone");
  const later = new UiSettings(api);
  expect(later.values.theme, "also after the page was reopened").toBe("dark");
  daemon.problem = undefined;
  await later.load();
  expect([table["ui.theme"], later.values.theme, stored()?.unsent]).toEqual(["dark", "dark", {}]);
});

it("refused change is reverted", async () => {
  const { api, daemon } = world();
  const settings = new UiSettings(api);
  const refusal = new ApiError(400, "no such size");
  const write = api.write;
  api.write = async (change) => {
    daemon.writes.push(change);
    throw refusal;
  };
  await expect(settings.set({ text_size: 9 })).rejects.toBe(refusal);
  expect(settings.values.text_size).toBe(100);
  api.write = write;
  await settings.set({ theme: "dark" });
  expect(daemon.writes.at(-1), "a refused change is not sent again").toEqual({ "ui.theme": "dark" });
});

it("missing value means the default", async () => {
  const { api, table, daemon } = world('{"values":{"shortcuts":"find=mod+e"}}');
  const settings = new UiSettings(api);
  await settings.load();
  expect(settings.values.shortcuts, "a daemon without the setting does not change it").toBe("find=mod+e");
  table["ui.shortcuts"] = undefined;
  await settings.load();
  expect(settings.values.shortcuts).toBe("");
  await settings.set({ shortcuts: "" });
  expect(daemon.writes).toEqual([{ "ui.shortcuts": null }]);
});

it("older answer does not replace a newer one", async () => {
  const { api } = world();
  const settings = new UiSettings(api);
  const first = settings.set({ theme: "dark" });
  const second = settings.set({ theme: "light" });
  await first;
  expect(settings.values.theme).toBe("light");
  await second;
  expect(settings.values.theme).toBe("light");
});

it("change by another window of the browser applies at once", () => {
  const settings = new UiSettings(world().api);
  settings.stored({ key: KEY, newValue: '{"values":{"theme":"dark","text_size":"big"}}' });
  expect(settings.values).toEqual({ ...STANDARD, theme: "dark" });
  settings.stored({ key: "other", newValue: '{"values":{"theme":"light"}}' });
  settings.stored({ key: KEY, newValue: "not JSON" });
  settings.stored({ key: KEY, newValue: null });
  expect(settings.values.theme).toBe("dark");
});
