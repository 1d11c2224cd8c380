import { beforeEach, describe, expect, it, vi } from "vitest";
import type { ChatLine, Message } from "../api/chats";
import * as api from "../api/chats";
import { ApiError } from "../api/client";
import type { ErrorBody } from "../api/types";
import { Conversation } from "./conversation.svelte";
import { Find, matchesIn, occurrences } from "./find.svelte";
import { toolChoice } from "./toolChoice.svelte";

// The daemon is simulated line by line; the tests in `e2e` use a real one.
vi.mock("../api/chats", () => ({
  getChat: vi.fn(),
  getMessages: vi.fn(),
  sendMessage: vi.fn(),
  answerAgain: vi.fn(),
  attachAnswer: vi.fn(),
  stopAnswer: vi.fn(),
  setHead: vi.fn(),
  changeChat: vi.fn(),
  decideCall: vi.fn(),
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
const q1 = message("q1", undefined, "user");
const a1 = message("a1", "q1", "assistant");
const chat = { id: "c", title: "", pinned: false, created_at: "", updated_at: "1", message_count: 2, warmth: "cold" as const, answering: false, temporary: false, options: {} };

async function* lines(...all: (ChatLine | Error)[]): AsyncGenerator<ChatLine> {
  for (const line of all) {
    await Promise.resolve();
    if (line instanceof Error) throw line;
    yield line;
  }
}
const ids = (conversation: Conversation): string => conversation.messages.map((one) => one.id).join(" ");

async function opened(ended: (answer: Message) => void = () => {}): Promise<Conversation> {
  const conversation = new Conversation("c", ended);
  await conversation.open();
  return conversation;
}

beforeEach(() => {
  vi.resetAllMocks();
  vi.mocked(api.getChat).mockResolvedValue(chat);
  vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, a1], total: 2, before: 0 });
});

describe("an answer", () => {
  it("is appended, grows and completes", async () => {
    const ended = vi.fn();
    const conversation = await opened(ended);
    const q2 = message("q2", "a1", "user");
    const a2 = message("a2", "q2", "assistant", { content: "", state: "answering" });
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q2 }, { answer: a2 }, { text: "He" }, { text: "llo" }, { done: { ...a2, content: "Hello", state: "complete" } }));
    expect(await conversation.send({ content: "q2" }), "the daemon accepted it").toBe(true);
    expect(ids(conversation)).toBe("q1 a1 q2 a2");
    expect(conversation.messages.at(-1)).toMatchObject({ content: "Hello", state: "complete" });
    expect(conversation.busy).toBe(false);
    expect(ended).toHaveBeenCalledOnce();
  });

  it("has the progress of the weights and the prompt until it begins", async () => {
    const conversation = await opened();
    const a2 = message("a2", "q2", "assistant", { content: "", state: "answering" });
    const seen: unknown[] = [];
    const watched = async function* (all: ChatLine[]): AsyncGenerator<ChatLine> {
      for (const line of all) {
        yield line;
        seen.push(conversation.beforeAnswer);
      }
    };
    const loading = { bytes: 5, total_bytes: 10 };
    const reading = { tokens: 3, total_tokens: 8, left_ms: 50 };
    vi.mocked(api.sendMessage).mockReturnValue(watched([{ user: message("q2", "a1", "user") }, { answer: a2 }, { loading }, { reading }, { text: "He" }, { done: a2 }]));
    await conversation.send({ content: "q2" });
    expect(seen.slice(1)).toEqual([{}, { loading }, { reading }, {}, {}]);
  });

  it("is not replaced by an older list", async () => {
    const conversation = await opened();
    let come = (): void => {};
    vi.mocked(api.getMessages).mockImplementationOnce(() => new Promise((resolve) => (come = () => resolve({ messages: [q1, a1], total: 2, before: 0 }))));
    const missed = conversation.missed();
    await vi.waitFor(() => expect(api.getMessages).toHaveBeenCalledTimes(2));
    const q2 = message("q2", "a1", "user");
    const a2 = message("a2", "q2", "assistant");
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q2 }, { answer: a2 }, { done: a2 }));
    const sending = conversation.send({ content: "q2" });
    await vi.waitFor(() => expect(ids(conversation)).toBe("q1 a1 q2 a2"));
    come();
    await Promise.all([missed, sending]);
    expect(ids(conversation)).toBe("q1 a1 q2 a2");
  });

  it("refusal is reported and leaves the chat unchanged", async () => {
    const conversation = await opened();
    vi.mocked(api.sendMessage).mockReturnValue(lines(new ApiError(404, "no model of that name")));
    expect(await conversation.send({ content: "x" })).toBe(false);
    expect(conversation.refused?.message).toBe("no model of that name");
    expect(ids(conversation)).toBe("q1 a1");
  });

  it("failed answer keeps its text and error", async () => {
    const conversation = await opened();
    const a2 = message("a2", "q1", "assistant", { content: "", state: "answering", versions: ["a1", "a2"] });
    const failure: ErrorBody = { error: "out of memory", code: "model_too_large", params: { need_bytes: "2", free_bytes: "1" } };
    vi.mocked(api.answerAgain).mockReturnValue(lines({ answer: a2 }, { text: "He" }, { failed: { ...a2, content: "He", state: "failed", error: failure } }));
    await conversation.regenerate(a1);
    expect(ids(conversation), "the other answer replaces the first one").toBe("q1 a2");
    expect(conversation.messages.at(-1)).toMatchObject({ content: "He", state: "failed", error: failure });
  });

  it("is followed again when the stream breaks", async () => {
    const conversation = await opened();
    const a2 = message("a2", "q1", "assistant", { content: "", state: "answering" });
    vi.mocked(api.answerAgain).mockReturnValue(lines({ answer: a2 }, { text: "He" }, new Error("network")));
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, { ...a2, content: "Hell", state: "interrupted" }], total: 2, before: 0 });
    await conversation.regenerate(a1);
    expect(conversation.messages.at(-1)).toMatchObject({ id: "a2", content: "Hell", state: "interrupted" });
    expect(conversation.refused, "no error is left").toBeUndefined();
  });

  it("reconnects until the daemon is back, however long that takes", async () => {
    vi.useFakeTimers();
    try {
      const began = vi.fn();
      const conversation = new Conversation("c", () => {}, began);
      await conversation.open();
      const a2 = message("a2", "q1", "assistant", { content: "", state: "answering" });
      vi.mocked(api.answerAgain).mockReturnValue(lines({ answer: a2 }, { text: "He" }, { text: "l" }, new ApiError(0, "network")));
      vi.mocked(api.getChat).mockRejectedValue(new ApiError(0, "network"));
      const following = conversation.regenerate(a1);
      await vi.advanceTimersByTimeAsync(60_000);
      expect(began, "at the first delta").toHaveBeenCalledOnce();
      expect([conversation.lost?.offline, conversation.busy, conversation.refused]).toEqual([true, false, undefined]);
      const tries = vi.mocked(api.getChat).mock.calls.length;
      conversation.reconnect();
      await vi.advanceTimersByTimeAsync(1);
      expect(vi.mocked(api.getChat).mock.calls.length, "at once on request").toBe(tries + 1);
      vi.mocked(api.getChat).mockRejectedValue(new ApiError(401, "unauthorized"));
      await vi.advanceTimersByTimeAsync(6_000);
      expect(conversation.lost?.status, "a restarted daemon refuses the session").toBe(401);
      vi.mocked(api.getChat).mockResolvedValue(chat);
      vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, { ...a2, content: "Hel", state: "interrupted" }], total: 2, before: 0 });
      await vi.advanceTimersByTimeAsync(6_000);
      await following;
      expect([conversation.lost, conversation.messages.at(-1)?.state]).toEqual([undefined, "interrupted"]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("running answer is followed on open", async () => {
    vi.mocked(api.getChat).mockResolvedValue({ ...chat, answering: true });
    const half = { ...a1, content: "Ha", state: "answering" as const };
    vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: half }, { text: "lf" }, { done: { ...half, content: "Half", state: "complete" } }));
    const conversation = await opened();
    await vi.waitFor(() => expect(conversation.busy).toBe(false));
    expect(ids(conversation)).toBe("q1 a1");
    expect(conversation.messages.at(-1)?.content).toBe("Half");
  });

  it("answer that completed before it was followed is loaded", async () => {
    const conversation = await opened();
    vi.mocked(api.attachAnswer).mockReturnValue(lines());
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, { ...a1, content: "All" }], total: 2, before: 0 });
    await conversation.changedElsewhere({ ...chat, updated_at: "2", answering: true });
    expect(conversation.messages.at(-1)?.content).toBe("All");
    expect(conversation.refused, "no request of the user failed").toBeUndefined();
  });

  it("second answer that completed before it was followed is loaded", async () => {
    const conversation = await opened();
    const q2 = message("q2", "a1", "user");
    const first = message("a2", "q2", "assistant", { model: "one" });
    const second = message("a3", "q2", "assistant", { model: "two", versions: ["a2", "a3"] });
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q2 }, { answer: { ...first, state: "answering" } }, { done: first }));
    vi.mocked(api.attachAnswer).mockReturnValue(lines());
    vi.mocked(api.getMessages).mockImplementation(async (_, ask) => {
      const messages = ask?.leaf === "a3" ? [second] : [q1, a1, q2, { ...first, versions: ["a2", "a3"] }];
      return { messages, total: 4, before: 0 };
    });
    expect(await conversation.send({ content: "q2", compare: "two" })).toBe(true);
    expect(conversation.comparison?.answers.map((one) => one.id), "both answers stay side by side").toEqual(["a2", "a3"]);
    expect(conversation.comparison?.awaited).toBeUndefined();
    expect(ids(conversation)).toBe("q1 a1 q2 a2");
  });

  it("second request is ignored while one runs", async () => {
    const conversation = await opened();
    let release = (): void => {};
    const gate = new Promise<void>((open) => (release = open));
    vi.mocked(api.sendMessage).mockReturnValue(
      (async function* () {
        await gate;
        yield { done: a1 };
      })(),
    );
    const first = conversation.send({ content: "a" });
    expect(await conversation.send({ content: "b" })).toBe(false);
    release();
    await first;
    expect(api.sendMessage).toHaveBeenCalledTimes(1);
  });
});

describe("another window", () => {
  const [q2, a2] = [message("q2", "a1", "user"), message("a2", "q2", "assistant", { content: "", state: "answering" })];

  it("its question and answer appear here", async () => {
    const conversation = await opened();
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, a1, q2, a2], total: 4, before: 0 });
    vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: a2 }, { done: { ...a2, content: "Hello", state: "complete" } }));
    await conversation.changedElsewhere({ ...chat, updated_at: "2", answering: true });
    expect(ids(conversation)).toBe("q1 a1 q2 a2");
  });

  it("shown branch is kept, and new messages continue it", async () => {
    const conversation = await opened();
    vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q2 }));
    await conversation.send({ content: "q2" });
    expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toEqual({ parent: "a1", content: "q2" });
  });

  it("changes missed while disconnected are loaded", async () => {
    const conversation = await opened();
    vi.mocked(api.getChat).mockResolvedValue({ ...chat, answering: true });
    vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, a1, q2, a2], total: 4, before: 0 });
    vi.mocked(api.attachAnswer).mockReturnValue(lines({ answer: a2 }, { text: "Hello" }, { done: { ...a2, content: "Hello", state: "complete" } }));
    await conversation.missed();
    expect(ids(conversation)).toBe("q1 a1 q2 a2");
    expect(conversation.messages.at(-1)?.content).toBe("Hello");
  });
});

it("edited first question begins another branch", async () => {
  const conversation = await opened();
  const q1b = message("q1b", undefined, "user", { versions: ["q1", "q1b"] });
  vi.mocked(api.sendMessage).mockReturnValue(lines({ user: q1b }));
  await conversation.edit(q1, "other");
  expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toEqual({ parent: null, content: "other" });
  expect(ids(conversation)).toBe("q1b");
});

it("versions are switched by the daemon", async () => {
  const conversation = await opened();
  vi.mocked(api.setHead).mockResolvedValue({ ...chat, head: "a0" });
  await conversation.version({ ...a1, versions: ["a0", "a1"] }, -1);
  expect(api.setHead).toHaveBeenCalledWith("c", "a0");
  await conversation.version({ ...a1, versions: ["a0", "a1"] }, 1);
  expect(api.setHead, "there is none after the last").toHaveBeenCalledTimes(1);
});

it("older messages are prepended", async () => {
  vi.mocked(api.getMessages).mockResolvedValueOnce({ messages: [a1], total: 2, before: 1 });
  const conversation = await opened();
  vi.mocked(api.getMessages).mockResolvedValueOnce({ messages: [q1], total: 2, before: 0 });
  expect(await conversation.reach("q1")).toBe(true);
  expect(ids(conversation)).toBe("q1 a1");
  expect(await conversation.reach("nowhere")).toBe(false);
});

it("message of another branch switches to that branch", async () => {
  const conversation = await opened();
  const a0 = message("a0", "q1", "assistant");
  vi.mocked(api.setHead).mockResolvedValue({ ...chat, head: "a0" });
  vi.mocked(api.getMessages).mockResolvedValue({ messages: [q1, a0], total: 2, before: 0 });
  expect(await conversation.reach("a0")).toBe(true);
  expect(ids(conversation)).toBe("q1 a0");
});

it("loading older messages stops when none arrive", async () => {
  vi.mocked(api.getMessages).mockResolvedValueOnce({ messages: [a1], total: 2, before: 1 });
  const conversation = await opened();
  vi.mocked(api.getMessages).mockReset();
  vi.mocked(api.setHead).mockRejectedValue(new ApiError(0, "away"));
  let requests = 0;
  vi.mocked(api.getMessages).mockImplementation(() => {
    requests += 1;
    // Without an end, a failing test would not stop either.
    if (requests > 50) conversation.before = 0;
    return Promise.reject(new ApiError(0, "away"));
  });
  expect(await conversation.reach("q1"), "it does not exist").toBe(false);
  const find = new Find(conversation);
  find.text = "a1";
  await find.look();
  expect(find.found, "loaded messages are searched").toEqual([{ message: "a1", nth: 0 }]);
  expect(requests, "once each").toBe(2);
});

it("find returns each occurrence of the words", () => {
  const messages = [message("A bird", undefined, "user"), message("sings", "x", "assistant"), message("BIRDS, a birdbird", "y", "user")];
  const found = matchesIn(messages, " bird ").map((match) => `${match.message} ${match.nth}`);
  expect(found).toEqual(["A bird 0", "BIRDS, a birdbird 0", "BIRDS, a birdbird 1", "BIRDS, a birdbird 2"]);
  expect(matchesIn(messages, "  ")).toEqual([]);
  expect(occurrences("aaa A", "aa"), "without overlaps").toEqual([0]);
  expect(occurrences("\u0130 bird", "bird"), "a letter that has another length in the other case").toEqual([2]);
});

describe("tools", () => {
  const call: api.Call = { id: "k", function: "read", origin: "files", tool: "read", arguments: {}, state: "waiting" };
  const step = (state: api.CallState): api.Step => ({ content: "First", calls: [{ ...call, state }] });
  const [q2, a2] = [message("q2", "a1", "user"), message("a2", "q2", "assistant", { content: "", state: "answering" })];

  it("steps of a streaming answer replace its text, and stay when it completes", async () => {
    const conversation = await opened();
    const seen: unknown[] = [];
    let resume = (): void => {};
    vi.mocked(api.sendMessage).mockReturnValue(
      (async function* () {
        yield { user: q2 };
        yield { answer: a2 };
        yield { text: "First" };
        yield { step: { index: 0, step: step("waiting") } };
        await new Promise<void>((go) => (resume = go));
        yield { step: { index: 0, step: step("done") } };
        yield { text: "Then" };
        yield { done: { ...a2, content: "Then", state: "complete" as const, steps: [step("done")] } };
      })(),
    );
    const sending = conversation.send({ content: "q2" });
    await vi.waitFor(() => expect(conversation.messages.at(-1)?.steps?.[0]?.calls[0]?.state).toBe("waiting"));
    seen.push(conversation.messages.at(-1)?.content);
    resume();
    await sending;
    expect(seen, "the step has the text").toEqual([""]);
    expect(conversation.messages.at(-1)).toMatchObject({ content: "Then", steps: [{ content: "First", calls: [{ state: "done" }] }] });
  });

  it("decision on a call that waits no more is no error, others are", async () => {
    const conversation = await opened();
    await conversation.decide(call, "always");
    expect(api.decideCall).toHaveBeenCalledExactlyOnceWith("c", "k", "always");
    vi.mocked(api.decideCall).mockRejectedValueOnce(new ApiError(404, "gone", { error: "gone", code: "tool_call_not_found" }));
    await conversation.decide(call, "once");
    vi.mocked(api.decideCall).mockRejectedValueOnce(new ApiError(500, "boom"));
    await expect(conversation.decide(call, "once")).rejects.toThrow("boom");
    expect(conversation.refused, "reported at the call").toBeUndefined();
  });

  it("are left out of all requests while they are off", async () => {
    const conversation = await opened();
    toolChoice.off = true;
    try {
      vi.mocked(api.sendMessage).mockReturnValue(lines());
      vi.mocked(api.answerAgain).mockImplementation(() => lines());
      await conversation.send({ content: "x" });
      await conversation.regenerate(a1);
      await conversation.continueAnswer(a1);
      expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toEqual({ parent: "a1", content: "x", tools: false });
      expect(vi.mocked(api.answerAgain).mock.calls.map(([, ask]) => ask.tools)).toEqual([false, false]);
    } finally {
      toolChoice.off = false;
    }
    vi.mocked(api.sendMessage).mockReturnValue(lines());
    await conversation.send({ content: "x" });
    expect(vi.mocked(api.sendMessage).mock.calls[1]?.[1]).not.toHaveProperty("tools");
  });

  it("time of a running call is counted once", async () => {
    const conversation = await opened();
    const since = conversation.runningSince(a2, call);
    await new Promise((resume) => setTimeout(resume, 5));
    expect(conversation.runningSince(a2, { ...call })).toBe(since);
    expect(conversation.runningSince(a1, call), "of another message").toBeGreaterThan(since);
  });
});
