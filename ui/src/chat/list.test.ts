import { describe, expect, it } from "vitest";
import type { ChatSummary } from "../api/chats";
import { ageOf, ChatList, placed } from "./list.svelte";

const chat = (id: string, updated: string, more: Partial<ChatSummary> = {}): ChatSummary => ({
  id,
  title: id,
  pinned: false,
  created_at: updated,
  updated_at: updated,
  message_count: 2,
  warmth: "cold",
  answering: false,
  temporary: false,
  ...more,
});
const a = chat("a", "2026-03-03T10:00:00Z");
const b = chat("b", "2026-03-02T10:00:00Z");
const c = chat("c", "2026-03-01T10:00:00Z");

describe("position", () => {
  const check = (one: ChatSummary, expected: string): void => expect(placed([a, b, c], one).map((chat) => chat.id).join("")).toBe(expected);
  it("follows the time of the last change", () => {
    check(chat("x", "2026-03-04T00:00:00Z"), "xabc");
    check(chat("x", "2026-03-02T12:00:00Z"), "axbc");
    check(chat("x", "2026-02-01T00:00:00Z"), "abcx");
  });
  it("moves with the time", () => check({ ...c, updated_at: "2026-03-05T00:00:00Z" }, "cab"));
});

describe("events", () => {
  const list = (): ChatList => {
    const chats = new ChatList();
    chats.chats = [a, b];
    chats.pinned = [c];
    return chats;
  };
  it("pinned chat moves to the pinned ones", () => {
    const chats = list();
    chats.apply({ chat: { ...a, pinned: true } });
    expect([chats.pinned.map((one) => one.id), chats.chats.map((one) => one.id)]).toEqual([["a", "c"], ["b"]]);
  });
  it("removed chat disappears", () => {
    const chats = list();
    chats.apply({ removed: "b" });
    chats.apply({ removed: "c" });
    expect([...chats.pinned, ...chats.chats].map((one) => one.id)).toEqual(["a"]);
  });
  it("chats of other folders and of the trash are not listed", () => {
    const chats = list();
    chats.folder = "work";
    chats.apply({ chat: chat("x", "2026-03-09T00:00:00Z") });
    chats.apply({ chat: chat("y", "2026-03-09T00:00:00Z", { folder: "work" }) });
    chats.apply({ chat: chat("z", "2026-03-09T00:00:00Z", { folder: "work", deleted_at: "2026-03-09T00:00:00Z" }) });
    expect(chats.chats.map((one) => one.id)).toEqual(["y", "a", "b"]);
    chats.apply({ chat: chat("t", "2026-03-09T00:00:00Z", { temporary: true }) });
    expect(chats.temporary.map((one) => one.id), "a temporary chat is in no folder").toEqual(["t"]);
    expect(chats.folders, "a folder exists once a chat is in it").toEqual([{ name: "work", chats: 1 }]);
  });
});

it("chats are grouped by local days", () => {
  const now = new Date(2026, 2, 10, 9, 0);
  const check = (date: Date, age: string): void => expect(ageOf(date.toISOString(), now), date.toString()).toBe(age);
  check(new Date(2026, 2, 10, 0, 1), "today");
  check(new Date(2026, 2, 9, 23, 59), "week");
  check(new Date(2026, 2, 4, 8, 0), "week");
  check(new Date(2026, 2, 3, 23, 0), "older");
  check(new Date(2026, 2, 11, 1, 0), "today");
});
