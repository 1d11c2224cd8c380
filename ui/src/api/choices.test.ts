import { expect, it } from "vitest";
import { KEY, STANDARD, UiChoices, type Choices } from "./choices.svelte";
import { ApiError } from "./client";
import type { Setting, SettingsResponse } from "./types";

/** A daemon with a table, which can be away or refuse; and a browser's storage. */
function world(stored?: string) {
  const table: Record<string, unknown> = { "ui.theme": "system", "ui.language": "system", "ui.text_size": 100, "cache.ram": 5 };
  const kept = new Map(stored === undefined ? [] : [[KEY, stored]]);
  const here = { trouble: undefined as ApiError | undefined, writes: [] as unknown[] };
  const answer = (): SettingsResponse => {
    if (here.trouble) throw here.trouble;
    return { settings: Object.entries(table).map(([key, value]) => ({ key, value }) as Setting) } as SettingsResponse;
  };
  const api = {
    read: async () => answer(),
    write: async (change: Record<string, unknown>) => {
      here.writes.push(change);
      if (here.trouble) throw here.trouble;
      Object.assign(table, change);
      return answer();
    },
    storage: { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) },
  };
  const stored2 = () => JSON.parse(kept.get(KEY) ?? "null") as { values: Choices; unsent: Partial<Choices> } | null;
  return { table, here, api, stored: stored2 };
}

it("begins with what was known last, and then believes the daemon", async () => {
  const { api, table, stored } = world('{"values":{"theme":"dark","text_size":"big","unheard":1}}');
  const choices = new UiChoices(api);
  expect(choices.now, "a value of another kind is none").toEqual({ ...STANDARD, theme: "dark" });
  table["ui.theme"] = "light";
  await choices.load();
  expect(choices.now.theme).toBe("light");
  expect(stored()?.values.theme, "for the next first paint").toBe("light");
});

it("chooses at once and tells the daemon", async () => {
  const { api, table, here } = world();
  const choices = new UiChoices(api);
  const told = choices.set({ theme: "dark", language: "zh-CN" });
  expect(choices.now.theme, "before the daemon answers").toBe("dark");
  await told;
  expect(here.writes).toEqual([{ "ui.theme": "dark", "ui.language": "zh-CN" }]);
  expect(table["ui.language"]).toBe("zh-CN");
});

it.each([0, 401])("keeps what was chosen while nobody took it (%i), and tells it later", async (status) => {
  const { api, table, here, stored } = world();
  const choices = new UiChoices(api);
  here.trouble = new ApiError(status, "gone");
  await choices.set({ theme: "dark" });
  expect(choices.now.theme).toBe("dark");
  await expect(choices.load()).rejects.toThrow("gone");
  const later = new UiChoices(api);
  expect(later.now.theme, "also after the page was opened anew").toBe("dark");
  here.trouble = undefined;
  await later.load();
  expect([table["ui.theme"], later.now.theme, stored()?.unsent]).toEqual(["dark", "dark", {}]);
});

it("goes back when it is refused", async () => {
  const { api, here } = world();
  const choices = new UiChoices(api);
  const refusal = new ApiError(400, "no such size");
  const write = api.write;
  api.write = async (change) => {
    here.writes.push(change);
    throw refusal;
  };
  await expect(choices.set({ text_size: 9 })).rejects.toBe(refusal);
  expect(choices.now.text_size).toBe(100);
  api.write = write;
  await choices.set({ theme: "dark" });
  expect(here.writes.at(-1), "what was refused is not sent again").toEqual({ "ui.theme": "dark" });
});

it("takes no value for the default", async () => {
  const { api, table, here } = world('{"values":{"shortcuts":"find=mod+e"}}');
  const choices = new UiChoices(api);
  await choices.load();
  expect(choices.now.shortcuts, "a daemon that knows of none leaves it").toBe("find=mod+e");
  table["ui.shortcuts"] = undefined;
  await choices.load();
  expect(choices.now.shortcuts).toBe("");
  await choices.set({ shortcuts: "" });
  expect(here.writes).toEqual([{ "ui.shortcuts": null }]);
});

it("does not take an older word for a newer one", async () => {
  const { api } = world();
  const choices = new UiChoices(api);
  const first = choices.set({ theme: "dark" });
  const second = choices.set({ theme: "light" });
  await first;
  expect(choices.now.theme).toBe("light");
  await second;
  expect(choices.now.theme).toBe("light");
});
