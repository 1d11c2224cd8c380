import { expect, it } from "vitest";
import { ApiError } from "./client";
import { SettingsTable, type Value } from "./settings.svelte";
import type { Setting, SettingsResponse } from "./types";

const setting = (key: string, value: Value, origin: Setting["origin"]): Setting => ({
  key,
  group: key.split(".")[0] ?? "",
  kind: "number",
  ...(value === null ? {} : { value }),
  default_about: "",
  origin,
  applies: "now",
  restart: false,
  about: "",
});
const table = (settings: Setting[]): SettingsResponse => ({ path: "/config.toml", restart: false, settings });

async function started(write: (change: Record<string, Value>) => Promise<SettingsResponse>): Promise<SettingsTable> {
  const rows = [setting("engine.parallel", 8, "default"), setting("cache.ram", 5, "file"), setting("server.host", "a", "environment")];
  const settings = new SettingsTable({ read: async () => table(rows), write });
  await settings.load();
  return settings;
}

it("draft with the stored value is no change", async () => {
  const settings = await started(async () => table([]));
  settings.set("cache.ram", 6);
  expect(settings.dirty).toBe(true);
  settings.set("cache.ram", 5);
  expect(settings.dirty).toBe(false);
  settings.set("engine.parallel", null);
  expect(settings.dirty, "the default again").toBe(false);
  expect(settings.locked(settings.find("server.host")!), "the environment overrides it").toBe(true);
  expect(settings.locked(settings.find("cache.ram")!)).toBe(false);
});

it("reload shows changes of others and keeps drafts", async () => {
  let budget = 5;
  const settings = new SettingsTable({ read: async () => table([setting("cache.ram", budget, "file")]), write: async () => table([]) }, () => {});
  await settings.load();
  settings.set("cache.ram", 9);
  budget = 7;
  await settings.load();
  expect(settings.find("cache.ram")?.value).toBe(7);
  expect(settings.draft).toEqual({ "cache.ram": 9 });
});

it("table read during a write does not replace the write's answer", async () => {
  let answer: (table: SettingsResponse) => void = () => {};
  let written: (table: SettingsResponse) => void = () => {};
  const row = (value: number) => table([setting("cache.ram", value, "file")]);
  const settings = new SettingsTable({ read: () => new Promise((done) => (answer = done)), write: () => new Promise((done) => (written = done)) }, () => {});
  const saving = settings.put("cache.ram", 9);
  const reading = settings.load();
  written(row(9));
  await saving;
  answer(row(5));
  await reading;
  expect(settings.find("cache.ram")?.value).toBe(9);
});

it("table read before a change does not replace it", async () => {
  let answer: (table: SettingsResponse) => void = () => {};
  const row = (value: number) => table([setting("cache.ram", value, "file")]);
  const settings = new SettingsTable({ read: () => new Promise((done) => (answer = done)), write: async () => row(9) }, () => {});
  const reading = settings.load();
  await settings.put("cache.ram", 9);
  answer(row(5));
  await reading;
  expect(settings.find("cache.ram")?.value).toBe(9);
});

it("refused values are reported by key and stay in the draft", async () => {
  const tooSmall = { key: "cache.ram", error: "too small", code: "setting_out_of_range", params: {} };
  const settings = await started(async () => {
    throw new ApiError(400, "refused", { error: "refused", wrong: [tooSmall] });
  });
  expect(await settings.put("cache.ram", 1)).toBe(false);
  expect(settings.wrong).toEqual({ "cache.ram": tooSmall });
  expect(settings.draft).toEqual({ "cache.ram": 1 });
  settings.set("cache.ram", 2);
  expect(settings.wrong, "a new value is not checked yet").toEqual({});
});

it("undo restores the values before the last change", async () => {
  const written: Record<string, Value>[] = [];
  const settings = await started(async (change) => {
    written.push(change);
    return table([setting("cache.ram", change["cache.ram"] ?? null, "file"), setting("engine.parallel", 8, "default")]);
  });
  settings.set("cache.ram", 9);
  settings.set("engine.parallel", 4);
  await settings.save();
  await settings.undo();
  expect(written).toEqual([
    { "cache.ram": 9, "engine.parallel": 4 },
    { "cache.ram": 5, "engine.parallel": null },
  ]);
  expect(settings.before, "once").toBeUndefined();
});

it("save writes the latest drafts, not refused ones", async () => {
  const written: Record<string, Value>[] = [];
  const settings = await started(async (change) => {
    written.push(change);
    if (change["cache.ram"] === 1) throw new ApiError(400, "no");
    return table([]);
  });
  await settings.put("cache.ram", 1);
  expect(settings.wrong, "of no key").toEqual({ "": new ApiError(400, "no") });
  expect(await settings.put("engine.parallel", 4)).toBe(true);
  expect(written[1]).toEqual({ "engine.parallel": 4 });
  settings.forget("cache.ram");
  expect(settings.dirty).toBe(false);
});
