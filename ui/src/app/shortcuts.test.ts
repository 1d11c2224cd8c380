import { expect, it, vi } from "vitest";
import { uiSettings } from "../api/uiSettings.svelte";
import { COMMANDS, defaultCombo } from "./commands.svelte";
import { read, refusal, screenOf, SHORTCUTS, shortcuts, written } from "./shortcuts.svelte";

it("default shortcuts are unique and allowed", () => {
  const combos = SHORTCUTS.map((one) => one.usual).filter(Boolean);
  expect(new Set(combos).size).toBe(combos.length);
  expect(SHORTCUTS.filter((one) => !one.fixed && one.usual !== "" && refusal(one.usual) !== undefined)).toEqual([]);
});

it("shortcuts that browsers keep for themselves are defaults in the window only", () => {
  const KEPT = ["mod+n", "mod+shift+n", "mod+t", "mod+shift+t", "mod+w", "mod+shift+w"];
  const used = (kind: "browser" | "tauri"): string[] => COMMANDS.map((one) => defaultCombo(one, kind)).filter((combo) => KEPT.includes(combo));
  expect([used("browser"), used("tauri")]).toEqual([[], ["mod+n", "mod+shift+n"]]);
});

it("shortcuts of typing and of the system are refused", () => {
  const check = (combo: string, why: ReturnType<typeof refusal>): void => expect(refusal(combo), combo).toBe(why);
  check("mod+control", "unfinished");
  check("shift+a", "plain");
  check("enter", "plain");
  check("mod+c", "taken");
  check("mod+enter", "taken");
  check("mod+ ", "taken");
  check("alt+q", undefined);
  check("mod+shift+alt+q", undefined);
  check("f8", undefined);
});

it("invalid entries of the setting are ignored", () => {
  const check = (text: string, expected: string): void => expect(written(read(text)), text).toBe(expected);
  check("new_chat=mod+e find=", "new_chat=mod+e find=");
  check("  nothing=mod+e stop=mod+e find=q model  =x ", "");
  check("go_models=alt+m", "go_models=alt+m");
  expect([screenOf("go_models"), screenOf("model")]).toEqual(["models", undefined]);
});

it("changed shortcut applies until it is reset", () => {
  vi.spyOn(uiSettings, "set").mockImplementation(async (change) => uiSettings.take(Object.entries(change).map(([key, value]) => ({ key: `ui.${key}`, value }) as never)));
  shortcuts.set("new_chat", "mod+e");
  expect([shortcuts.of("new_chat"), shortcuts.find("mod+e")?.id, shortcuts.find("alt+n")]).toEqual(["mod+e", "new_chat", undefined]);
  shortcuts.set("find", "");
  expect([shortcuts.of("find"), shortcuts.changed("find")]).toEqual([undefined, true]);
  shortcuts.set("new_chat", "alt+n");
  expect([shortcuts.changed("new_chat"), uiSettings.values.shortcuts]).toEqual([false, "find="]);
  shortcuts.reset();
  expect([shortcuts.of("find"), shortcuts.anyChanged]).toEqual(["mod+f", false]);
  vi.restoreAllMocks();
});
