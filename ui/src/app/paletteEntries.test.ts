import { afterEach, expect, it, vi } from "vitest";
import { models } from "../api/models.svelte";
import type { PsModel, Setting, TagsModel } from "../api/types";
import { locale } from "../i18n";
import { commands } from "./commands.svelte";
import { matches } from "./palette";
import { entries } from "./paletteEntries";

const setting = { key: "network.proxy", group: "network", env: "HTTPS_PROXY", about: "" } as Setting;
const named = (query: string): string[] => matches(entries([setting, setting], { run: vi.fn(), chatWith: vi.fn() }), query).map((entry) => entry.label);

afterEach(() => {
  locale.set("en");
  Object.assign(models, { installed: [], loaded: [] });
});

it("actions, choices and settings are found by their names and by other words", () => {
  Object.assign(models, { installed: [{ name: "pebble:latest" } as TagsModel], loaded: [{ name: "pebble:latest" } as PsModel] });
  const leave = commands.handle({ chat_rename: () => {}, chat_delete: () => {} });
  const check = (query: string, label: string): void => expect(named(query), query).toContain(label);
  check("dark", "Theme: dark");
  check("delete", "Delete this chat");
  check("rename", "Rename this chat");
  check("import", "Import a model file");
  check("gguf", "Import a model file");
  check("unload", "Unload pebble:latest");
  check("export", "Export all chats");
  check("chat pebble", "Chat with pebble:latest");
  check("text size", "Text size");
  check("mcp", "Manage tools");
  check("settings tools", "Read a web page");
  expect(named("settings proxy"), "once").toEqual(["Proxy"]);
  expect(named("https_proxy")).toEqual(["Proxy"]);
  leave();
  expect(named("rename"), "without a chat").toEqual([]);
  locale.set("zh-CN");
  expect(named("深色")).toContain("主题：深色");
});
