import { describe, expect, it } from "vitest";
import type { ChatSummary } from "../api/chats";
import { ageOf, ChatList, placed } from "./list.svelte";

const chat = (id: string, updated: string, more: Partial<ChatSummary> = {}): ChatSummary => ({
  id,
  title: id,
  pinned: false,
  created_at: updated,
  updated_at: updated,
  messages: 2,
  warmth: "cold",
  answering: false,
  temporary: false,
  ...more,
});
const a = chat("a", "2026-03-03T10:00:00Z");
const b = chat("b", "2026-03-02T10:00:00Z");
const c = chat("c", "2026-03-01T10:00:00Z");

describe("placing", () => {
  const check = (one: ChatSummary, expected: string): void => expect(placed([a, b, c], one).map((chat) => chat.id).join("")).toBe(expected);
  it("puts a chat where its time says", () => {
    check(chat("x", "2026-03-04T00:00:00Z"), "xabc");
    check(chat("x", "2026-03-02T12:00:00Z"), "axbc");
    check(chat("x", "2026-02-01T00:00:00Z"), "abcx");
  });
  it("moves one that is there", () => check({ ...c, updated_at: "2026-03-05T00:00:00Z" }, "cab"));
});

describe("events", () => {
  const list = (): ChatList => {
    const made = new ChatList();
    made.chats = [a, b];
    made.pinned = [c];
    return made;
  };
  it("moves a chat that is pinned", () => {
    const made = list();
    made.heard({ chat: { ...a, pinned: true } });
    expect([made.pinned.map((one) => one.id), made.chats.map((one) => one.id)]).toEqual([["a", "c"], ["b"]]);
  });
  it("takes away what was removed", () => {
    const made = list();
    made.heard({ removed: "b" });
    made.heard({ removed: "c" });
    expect([...made.pinned, ...made.chats].map((one) => one.id)).toEqual(["a"]);
  });
  it("shows no chat of another folder, and none from the trash", () => {
    const made = list();
    made.folder = "work";
    made.heard({ chat: chat("x", "2026-03-09T00:00:00Z") });
    made.heard({ chat: chat("y", "2026-03-09T00:00:00Z", { folder: "work" }) });
    made.heard({ chat: chat("z", "2026-03-09T00:00:00Z", { folder: "work", deleted_at: "2026-03-09T00:00:00Z" }) });
    expect(made.chats.map((one) => one.id)).toEqual(["y", "a", "b"]);
    made.heard({ chat: chat("t", "2026-03-09T00:00:00Z", { temporary: true }) });
    expect(made.temporary.map((one) => one.id), "a temporary one is in no folder").toEqual(["t"]);
    expect(made.folders, "a folder is there once a chat is in it").toEqual([{ name: "work", chats: 1 }]);
  });
});

it("groups by local days", () => {
  const now = new Date(2026, 2, 10, 9, 0);
  const check = (date: Date, age: string): void => expect(ageOf(date.toISOString(), now), date.toString()).toBe(age);
  check(new Date(2026, 2, 10, 0, 1), "today");
  check(new Date(2026, 2, 9, 23, 59), "week");
  check(new Date(2026, 2, 4, 8, 0), "week");
  check(new Date(2026, 2, 3, 23, 0), "older");
  check(new Date(2026, 2, 11, 1, 0), "today");
});
