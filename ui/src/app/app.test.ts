import { describe, expect, it } from "vitest";
import { keys } from "../components/keys";
import { fill } from "../i18n/locale.svelte";
import { comboOf, COMMANDS, commands } from "./commands.svelte";
import { matches, rank } from "./palette";
import { parse } from "./router.svelte";

describe("routes", () => {
  const check = (hash: string, parts: string[]): void => expect(parse(hash)).toEqual(parts);
  it("fragment is decoded into parts", () => {
    check("", []);
    check("#/models/discover", ["models", "discover"]);
    check("#/chat/a%2Fb", ["chat", "a/b"]);
    check("#/chat/%E0%A4%A", ["chat", "%E0%A4%A"]);
  });
});

describe("shortcuts", () => {
  const event = (key: string, code: string, mods: Partial<Record<"ctrlKey" | "metaKey" | "shiftKey" | "altKey", boolean>>): KeyboardEvent =>
    ({ key, code, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false, ...mods }) as KeyboardEvent;
  it("key presses are spelled as in the table", () => {
    expect(comboOf(event("K", "KeyK", { ctrlKey: true }), false)).toBe("mod+k");
    expect(comboOf(event("k", "KeyK", { metaKey: true }), true)).toBe("mod+k");
    expect(comboOf(event("k", "KeyK", { ctrlKey: true }), true), "Ctrl is not Cmd").toBe("k");
    expect(comboOf(event(":", "Semicolon", { ctrlKey: true, shiftKey: true }), false)).toBe("mod+shift+;");
    expect(comboOf(event("!", "Digit1", { ctrlKey: true }), false)).toBe("mod+1");
    expect(comboOf(event("Escape", "Escape", {}), false)).toBe("escape");
  });
  it("shortcuts are unique", () => {
    const combos = COMMANDS.flatMap((command) => command.combo ?? []);
    expect(new Set(combos).size).toBe(combos.length);
  });
  it("shortcuts are drawn in the style of the system", () => {
    expect(keys("mod+shift+f", true)).toBe("⇧⌘F");
    expect(keys("mod+shift+f", false)).toBe("Ctrl+Shift+F");
  });
  it("command runs on the screen that registered it", () => {
    let done = 0;
    const leave = commands.handle({ regenerate: () => (done += 1), stop: () => false });
    expect(commands.run("regenerate")).toBe(true);
    expect(commands.run("stop"), "without an answer to stop, the key stays free").toBe(false);
    leave();
    expect(commands.run("regenerate")).toBe(false);
    expect(done).toBe(1);
  });
});

describe("palette", () => {
  const entries = ["Next theme", "Choose the model", "Models"].map((label) => ({ id: label, group: "command", label, run: () => {} }));
  it("palette matches all words, word starts first", () => {
    expect(matches(entries, "mod").map((entry) => entry.label)).toEqual(["Models", "Choose the model"]);
    expect(matches(entries, "the mod").map((entry) => entry.label)).toEqual(["Choose the model"]);
    expect(rank("abc", "x")).toBeUndefined();
    const worded = [{ id: "a", group: "g", label: "Proxy", words: "Settings network HTTPS_PROXY", run: () => {} }, { id: "b", group: "g", label: "Network", run: () => {} }];
    const found = (query: string): string[] => matches(worded, query).map((entry) => entry.label);
    expect([found("settings proxy"), found("network"), found("proxy nothing")], "other words rank last").toEqual([["Proxy"], ["Network", "Proxy"], []]);
  });
});

describe("texts", () => {
  const check = (text: string, params: Record<string, string | number>, language: "en" | "zh-CN", expected: string): void => expect(fill(text, params, language)).toBe(expected);
  it("values and plurals are filled in", () => {
    check("{count} {count|chat|chats}", { count: 1 }, "en", "1 chat");
    check("{count} {count|chat|chats}", { count: 0 }, "en", "0 chats");
    check("{count} 个对话", { count: 3 }, "zh-CN", "3 个对话");
    check("\"{name}\" and {other}", { name: "{count}" }, "en", "\"{count}\" and {other}");
  });
});
