import { expect, it, vi } from "vitest";
import type { ChatsResponse } from "../api/chats";

/** Lists that were asked for, each answered when the test says so. */
const asked: { what: Record<string, unknown>; answer: (titles: string[]) => void }[] = [];
vi.mock("../api/chats", () => ({
  listChats: (what: Record<string, unknown>): Promise<ChatsResponse> => {
    const none = { pinned: [], chats: [], folders: [] };
    if (what["temporary"] === true) return Promise.resolve(none);
    const page = (ids: string[]): ChatsResponse => ({ ...none, chats: ids.map((id) => ({ id, title: id, updated_at: "2026-01-01T00:00:00Z" })) as ChatsResponse["chats"] });
    return new Promise((resolve) => asked.push({ what, answer: (ids) => resolve(page(ids)) }));
  },
}));

const { ChatList } = await import("./list.svelte");

it("shows the list that was asked for last, whichever comes last", async () => {
  const list = new ChatList();
  const [trash, all] = [list.show({ trash: true }), list.show({})];
  asked[1]?.answer(["kept"]);
  await all;
  asked[0]?.answer(["deleted"]);
  await trash;
  expect(list.trash).toBe(false);
  expect(list.chats.map((chat) => chat.id)).toEqual(["kept"]);
});
