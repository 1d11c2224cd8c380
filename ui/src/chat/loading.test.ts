import { expect, it, vi } from "vitest";
import type { ChatsResponse } from "../api/chats";

/** Pending list requests, which the test answers. */
const requests: { what: Record<string, unknown>; answer: (titles: string[], more?: Partial<ChatsResponse>) => void }[] = [];
vi.mock("../api/chats", () => ({
  listChats: (what: Record<string, unknown>): Promise<ChatsResponse> => {
    const none = { pinned: [], chats: [], folders: [] };
    if (what["temporary"] === true) return Promise.resolve(none);
    const page = (ids: string[]): ChatsResponse => ({ ...none, chats: ids.map((id) => ({ id, title: id, updated_at: "2026-01-01T00:00:00Z" })) as ChatsResponse["chats"] });
    return new Promise((resolve) => requests.push({ what, answer: (ids, more) => resolve({ ...page(ids), ...more }) }));
  },
}));

const { ChatList } = await import("./list.svelte");

it("latest requested list is shown, in any order of arrival", async () => {
  const list = new ChatList();
  const [trash, all] = [list.show({ trash: true }), list.show({})];
  requests[1]?.answer(["kept"]);
  await all;
  requests[0]?.answer(["deleted"]);
  await trash;
  expect(list.trash).toBe(false);
  expect(list.chats.map((chat) => chat.id)).toEqual(["kept"]);
});

it("notices of the server are shown until a list has none", async () => {
  const list = new ChatList();
  const notice = { error: "the file was damaged", code: "chats_repaired" as const };
  const [first, second] = [requests.length, requests.length + 1];
  const repaired = list.load();
  requests[first]?.answer(["kept"], { notices: [notice] });
  await repaired;
  expect(list.notices).toEqual([notice]);
  const again = list.load();
  requests[second]?.answer(["kept"]);
  await again;
  expect(list.notices).toEqual([]);
});

it("trash and folders do not change the counts of cached chats", async () => {
  const list = new ChatList();
  const first = requests.length;
  const all = list.load();
  requests[first]?.answer([], { chats: [{ id: "a", warmth: "hot" }, { id: "b", warmth: "cold" }] as ChatsResponse["chats"] });
  await all;
  const counts = { hot: 1, warm: 0, disk: 0, cold: 1 };
  expect(list.warmths).toEqual(counts);
  for (const where of [{ trash: true }, { folder: "Work" }]) {
    const shown = list.show(where);
    requests.at(-1)?.answer([], { chats: [{ id: "c", warmth: "disk" }] as ChatsResponse["chats"] });
    await shown;
    list.apply({ chat: { id: "d", warmth: "disk", updated_at: "", pinned: false } as never });
    expect(list.warmths).toEqual(counts);
  }
  const back = list.show({});
  requests.at(-1)?.answer([], { chats: [{ id: "b", warmth: "warm" }] as ChatsResponse["chats"] });
  await back;
  expect(list.warmths).toEqual({ hot: 0, warm: 1, disk: 0, cold: 0 });
});
