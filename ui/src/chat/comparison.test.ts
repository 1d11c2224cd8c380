import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ChatLine, Message } from "../api/chats";
import * as api from "../api/chats";
import { otherVersion, withAnswer } from "./comparison";
import { Conversation } from "./conversation.svelte";

// The daemon is simulated line by line; the tests in `e2e` use a real one.
vi.mock("../api/chats", () => ({
  getChat: vi.fn(),
  getMessages: vi.fn(),
  sendMessage: vi.fn(),
  attachAnswer: vi.fn(),
  answerAgain: vi.fn(),
  setHead: vi.fn(),
  changeChat: vi.fn(),
  deleteMessage: vi.fn(),
  restoreMessages: vi.fn(),
  editAnswer: vi.fn(),
}));

const message = (id: string, parent: string | undefined, role: string, more: Partial<Message> = {}): Message => ({
  id,
  ...(parent ? { parent } : {}),
  role,
  content: id,
  created_at: "2026-01-01T00:00:00Z",
  state: "complete",
  versions: [id],
  ...more,
});
const q = message("q", undefined, "user");
const a = message("a", "q", "assistant", { model: "one" });
const b = message("b", "q", "assistant", { model: "two", versions: ["a", "b"] });
const chat = { id: "c", title: "", model: "one", pinned: false, created_at: "", updated_at: "1", message_count: 2, warmth: "cold" as const, answering: false, temporary: false, options: {} };

async function* lines(...all: ChatLine[]): AsyncGenerator<ChatLine> {
  for (const line of all) {
    await Promise.resolve();
    yield line;
  }
}
const shown = (conversation: Conversation): string => conversation.messages.map((one) => one.id).join(" ");
const answers = (conversation: Conversation): string | undefined => conversation.comparison?.answers.map((one) => `${one.id} ${one.state}`).join(", ");

async function compared(first: Partial<Message> = {}): Promise<Conversation> {
  const conversation = new Conversation("c");
  await conversation.open();
  vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q }, { answer: { ...a, state: "answering" } }, { done: { ...a, ...first } }));
  vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: { ...b, state: "answering" } }, { done: b }));
  await conversation.send({ content: "q", model: "one", compare: "two" });
  return conversation;
}

beforeEach(() => {
  vi.resetAllMocks();
  vi.mocked(api.getChat).mockResolvedValue(chat);
  vi.mocked(api.getMessages).mockResolvedValue({ messages: [], total: 0, before: 0 });
  vi.mocked(api.setHead).mockResolvedValue(chat);
  vi.mocked(api.changeChat).mockImplementation(async (_, { model }) => ({ ...chat, model: model ?? "" }));
});

describe("two models", () => {
  it("answer one after the other, and both answers are shown", async () => {
    const conversation = await compared();
    expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toMatchObject({ compare: "two" });
    expect([answers(conversation), shown(conversation), conversation.busy]).toEqual(["a complete, b complete", "q b", false]);
    expect(conversation.comparison?.awaited).toBeUndefined();
  });
  it("name the second one before it answers", async () => {
    const conversation = new Conversation("c");
    await conversation.open();
    let seen: unknown;
    vi.mocked(api.sendMessage).mockReturnValue(
      (async function* () {
        yield { user: q };
        yield { answer: { ...a, state: "answering" } } as ChatLine;
        seen = conversation.comparison;
        yield { done: a };
      })(),
    );
    vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: b }, { done: b }));
    await conversation.send({ content: "q", compare: "two" });
    expect(seen).toMatchObject({ question: "q", awaited: "two", answers: [{ id: "a" }] });
  });
  it("are one if the first answer was stopped", async () => {
    const conversation = await compared({ state: "stopped" });
    expect(api.attachAnswer).not.toHaveBeenCalled();
    expect([conversation.comparison, shown(conversation)]).toEqual([undefined, "q a"]);
  });
  it("end with the answer that is kept, and the chat gets its model", async () => {
    const conversation = await compared();
    await conversation.keep(b);
    expect(vi.mocked(api.setHead).mock.calls).toEqual([["c", "b"]]);
    expect(vi.mocked(api.changeChat).mock.calls).toEqual([["c", { model: "two" }]]);
    expect([conversation.comparison, conversation.chat?.model]).toEqual([undefined, "two"]);
    const other = await compared();
    vi.mocked(api.changeChat).mockClear();
    await other.keep(a);
    expect(api.changeChat).not.toHaveBeenCalled();
  });
  it("stay compared if keeping one is refused", async () => {
    const conversation = await compared();
    vi.mocked(api.setHead).mockRejectedValue(new Error("busy"));
    await conversation.keep(a);
    expect([answers(conversation), conversation.refused?.message]).toEqual(["a complete, b complete", "Error: busy"]);
  });
  it("are not compared after an edit, another version or a further answer", async () => {
    const acts: ((conversation: Conversation) => Promise<unknown>)[] = [
      (conversation) => conversation.editAnswer(a, "x"),
      (conversation) => conversation.version(b, -1),
      (conversation) => conversation.regenerate(b),
    ];
    vi.mocked(api.editAnswer).mockResolvedValue(chat);
    for (const act of acts) {
      vi.mocked(api.answerAgain).mockReturnValue(lines());
      const conversation = await compared();
      await act(conversation);
      expect(conversation.comparison).toBeUndefined();
    }
  });
  it("are one branch if the connection broke", async () => {
    const conversation = new Conversation("c");
    await conversation.open();
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q }, { answer: { ...a, state: "answering" } }));
    vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: b }, { done: b }));
    await conversation.send({ content: "q", compare: "two" });
    expect(conversation.comparison).toBeUndefined();
  });
  it("leave the first answer to the next message", async () => {
    const conversation = await compared();
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: message("q2", "a", "user") }));
    await conversation.send({ content: "more" });
    expect(vi.mocked(api.sendMessage).mock.lastCall?.[1]).toMatchObject({ parent: "a" });
    expect(conversation.comparison).toBeUndefined();
  });
});

describe("versions", () => {
  it("of an answer are shown side by side", async () => {
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q, b], total: 2, before: 0 });
    const conversation = new Conversation("c");
    await conversation.open();
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [a], total: 2, before: 1 });
    await conversation.compare(b);
    expect(vi.mocked(api.getMessages).mock.lastCall).toEqual(["c", { leaf: "a", limit: 1 }]);
    expect(answers(conversation)).toBe("a complete, b complete");
  });
  it("are compared with the one before, and the first with the next", () => {
    const other = (id: string, ...versions: string[]): string | undefined => otherVersion(message(id, "q", "assistant", { versions }));
    expect([other("b", "a", "b", "c"), other("a", "a", "b", "c"), other("a", "a")]).toEqual(["a", "b", undefined]);
  });
  it("of another question do not belong to a comparison", () => {
    const comparison = { question: "q", answers: [a] };
    expect(withAnswer(comparison, message("x", "other", "assistant"))).toBe(comparison);
    expect(withAnswer(comparison, message("x", "q", "user"))).toBe(comparison);
  });
});

describe("a tree", () => {
  it("shows its branch after a deletion and its undo", async () => {
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q, a], total: 2, before: 0 });
    const conversation = new Conversation("c");
    await conversation.open();
    vi.mocked(api.deleteMessage).mockResolvedValue({ messages: [a], head: "a" });
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q], total: 1, before: 0 });
    const deleted = await conversation.remove(a);
    expect([deleted, shown(conversation)]).toEqual([{ messages: [a], head: "a" }, "q"]);
    vi.mocked(api.restoreMessages).mockResolvedValue(chat);
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q, a], total: 2, before: 0 });
    expect([await conversation.restore({ messages: [a], head: "a" }), shown(conversation)]).toEqual([true, "q a"]);
  });
  it("reports a refused change", async () => {
    const conversation = new Conversation("c");
    await conversation.open();
    vi.mocked(api.deleteMessage).mockRejectedValue(new Error("no"));
    vi.mocked(api.editAnswer).mockRejectedValue(new Error("no"));
    expect([await conversation.remove(a), conversation.refused?.message]).toEqual([undefined, "Error: no"]);
    expect(await conversation.editAnswer(a, "x")).toBe(false);
  });
});
