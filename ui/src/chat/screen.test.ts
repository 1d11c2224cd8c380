import { beforeEach, describe, expect, it, vi } from "vitest";
import * as api from "../api/chats";
import { cache } from "../api/cache";
import { ApiError } from "../api/client";
import { models as modelsApi } from "../api/models";
import { models } from "../api/models.svelte";
import type { ShowResponse, TagsModel } from "../api/types";
import { ChatScreen } from "./screen.svelte";

// The daemon is simulated; the tests in `e2e` use a real one.
vi.mock("../api/chats", () => ({ getChat: vi.fn(), getMessages: vi.fn(), sendMessage: vi.fn(), createChat: vi.fn(), changeChat: vi.fn(), deleteChat: vi.fn(), prefetchChat: vi.fn() }));

const chat = { id: "c", title: "", pinned: false, created_at: "", updated_at: "1", message_count: 0, warmth: "cold" as const, answering: false, temporary: false, options: {} };
const pebble: TagsModel = { name: "pebble:latest", model: "pebble:latest", modified_at: "", size: 1, digest: "", details: { parent_model: "", format: "gguf", family: "", families: null, parameter_size: "", quantization_level: "" } };
const sent = (): unknown[] => vi.mocked(api.sendMessage).mock.calls.map(([id, message]) => [id, message.model]);

beforeEach(() => {
  vi.resetAllMocks();
  Object.assign(models, { installed: [], loaded: [], hasList: false });
  vi.spyOn(models, "refresh").mockImplementation(() => {
    Object.assign(models, { installed: [pebble], hasList: true });
    return Promise.resolve();
  });
  vi.mocked(api.prefetchChat).mockResolvedValue({ warmth: "cold", contexts: 0 });
  vi.mocked(api.getChat).mockResolvedValue(chat);
  vi.mocked(api.getMessages).mockResolvedValue({ messages: [], total: 0, before: 0 });
  vi.mocked(api.createChat).mockResolvedValue(chat);
  vi.mocked(api.sendMessage).mockImplementation(async function* () {
    yield await Promise.resolve({ user: { id: "q", role: "user", content: "", created_at: "", state: "complete", versions: ["q"] } });
  });
});

function write(screen: ChatScreen, text: string, images = 0): void {
  const chat = screen.conversation?.id ?? "";
  screen.keepUnsent(chat, { text, attached: { files: [], images: Array.from({ length: images }, () => ({ name: "a.png", type: "image/png", data: "AA" })) } });
}
const boom = new ApiError(500, "boom");
/** Delays the next call until the returned function is called. */
function delayed<T>(mock: { mockImplementationOnce: (answer: () => Promise<T>) => unknown }, answer: T): (failure?: Error) => void {
  let go = (_?: Error): void => {};
  mock.mockImplementationOnce(() => new Promise((resolve, reject) => (go = (failure) => (failure ? reject(failure) : resolve(answer)))));
  return (failure) => go(failure);
}

describe("message sent before the data has loaded", () => {
  it("is sent once the list of models has loaded", async () => {
    const [screen, created] = [new ChatScreen(), vi.fn()];
    write(screen, "x");
    const sending = screen.send(created);
    expect(screen.busy).toBe(true);
    await screen.send(created);
    await sending;
    expect(sent(), "once").toEqual([["c", "pebble:latest"]]);
    expect(created).toHaveBeenCalledExactlyOnceWith("c");
    expect([screen.busy, screen.unsent("").text, screen.unsent("c").text]).toEqual([false, "", ""]);
  });

  it("goes to the model of the opening chat, or to the one chosen meanwhile", async () => {
    await models.refresh();
    vi.mocked(api.getChat).mockResolvedValue({ ...chat, model: "other:latest" });
    const screen = new ChatScreen();
    screen.open("c");
    write(screen, "x");
    await screen.send(vi.fn());
    const open = delayed(vi.mocked(api.getChat), { ...chat, model: "other:latest" });
    vi.mocked(api.changeChat).mockResolvedValue({ ...chat, model: "third:latest" });
    screen.open(undefined);
    screen.open("d");
    screen.chooseModel("third:latest");
    await vi.waitFor(() => expect(screen.model).toBe("third:latest"));
    write(screen, "y");
    const sending = screen.send(vi.fn());
    await new Promise((resume) => setTimeout(resume, 5));
    expect(sent().length, "nothing is sent to a chat that has not loaded").toBe(1);
    open();
    await sending;
    expect(sent()).toEqual([["c", "other:latest"], ["d", "third:latest"]]);
  });

  it("returns to the composer if the chat does not open, and can be sent again", async () => {
    vi.mocked(api.getChat).mockRejectedValueOnce(boom).mockRejectedValueOnce(boom);
    const screen = new ChatScreen();
    screen.open("c");
    await screen.conversation?.open();
    write(screen, "x");
    await screen.send(vi.fn());
    expect([screen.refused, screen.unsent("c").text, sent()]).toEqual([boom, "x", []]);
    await screen.send(vi.fn());
    expect([screen.refused, screen.unsent("c").text, sent().length]).toEqual([undefined, "", 1]);
  });

  it("keeps text written while the first message is sent", async () => {
    const screen = new ChatScreen();
    const go = delayed(vi.mocked(models.refresh), undefined);
    write(screen, "first", 1);
    const sending = screen.send(vi.fn());
    write(screen, "second", 1);
    await vi.waitFor(() => expect(models.refresh).toHaveBeenCalled());
    go(boom);
    await sending;
    expect(screen.unsent("")).toMatchObject({ text: "first\nsecond", attached: { images: [{}, {}] } });
  });

  it("waits for the message before it", async () => {
    const [screen, go] = [new ChatScreen(), delayed(vi.mocked(models.refresh), undefined)];
    write(screen, "first");
    const sending = screen.send(vi.fn());
    await vi.waitFor(() => expect(models.refresh).toHaveBeenCalled());
    write(screen, "second");
    await screen.send(vi.fn());
    Object.assign(models, { installed: [pebble], hasList: true });
    go();
    await sending;
    expect([sent().length, screen.unsent("c").text], "the second goes to the same chat").toEqual([1, "second"]);
  });

  it("can be cancelled while it waits", async () => {
    const go = delayed(vi.mocked(models.refresh), undefined);
    const screen = new ChatScreen();
    write(screen, "first");
    const sending = screen.send(vi.fn());
    await vi.waitFor(() => expect(models.refresh).toHaveBeenCalled());
    expect(screen.waiting?.text).toBe("first");
    screen.waiting?.cancel?.();
    await sending;
    go(boom);
    expect([screen.waiting, screen.busy, screen.unsent("").text, screen.refused, sent()]).toEqual([undefined, false, "first", undefined, []]);
  });

  it("with images waits for the capabilities of the model", async () => {
    vi.mocked(models.refresh).mockImplementation(() => Promise.resolve(void Object.assign(models, { installed: [{ ...pebble, capabilities: ["completion", "vision"] }], hasList: true })));
    const screen = new ChatScreen();
    write(screen, "", 1);
    await screen.send(vi.fn());
    expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toMatchObject({ images: ["AA"] });
  });

  it("with images asks for the capabilities that the list lacks", async () => {
    const show = vi.spyOn(modelsApi, "show").mockResolvedValue({ capabilities: ["completion", "vision"] } as ShowResponse);
    const screen = new ChatScreen();
    write(screen, "", 1);
    await screen.send(vi.fn());
    expect(show).toHaveBeenCalledExactlyOnceWith("pebble:latest");
    expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toMatchObject({ images: ["AA"] });
    Object.assign(models, { installed: [{ ...pebble, digest: "other" }] });
    expect([models.can("pebble", "vision"), models.can("absent", "vision")], "another file of that name").toEqual([false, false]);
  });

  it("with images keeps them if the model cannot be described", async () => {
    Object.assign(models, { installed: [{ ...pebble, digest: "third" }], hasList: true });
    vi.spyOn(modelsApi, "show").mockRejectedValue(boom);
    const screen = new ChatScreen();
    write(screen, "look", 1);
    await screen.send(vi.fn());
    expect(vi.mocked(api.sendMessage).mock.calls[0]?.[1]).toMatchObject({ content: "look" });
    expect(screen.unsent("c").attached.images.length, "the image is not lost").toBe(1);
  });
});

describe("new chat with a refused first message", () => {
  const refusal = new ApiError(500, "the model file is missing");
  const refuse = (error: ApiError) =>
    vi.mocked(api.sendMessage).mockImplementation(async function* () {
      await Promise.resolve();
      throw error;
    });

  it("is removed, and its text returns to the new chat", async () => {
    const [screen, created] = [new ChatScreen(), vi.fn()];
    vi.mocked(api.sendMessage).mockImplementation(async function* () {
      write(screen, "later");
      throw await Promise.resolve(refusal);
    });
    screen.begin({ system: "brief" });
    write(screen, "x");
    await screen.send(created);
    expect(api.deleteChat).toHaveBeenCalledExactlyOnceWith("c", true);
    expect(created.mock.calls).toEqual([["c"], [undefined]]);
    expect([screen.conversation, screen.refused, screen.unsent("").text, screen.draft.system]).toEqual([undefined, refusal, "x\nlater", "brief"]);
  });

  it("is kept if the daemon has a message, is away, or cannot remove it", async () => {
    for (const [error, count] of [[refusal, 1], [new ApiError(0, "offline"), 0]] as const) {
      refuse(error);
      vi.mocked(api.getChat).mockResolvedValue({ ...chat, message_count: count });
      const screen = new ChatScreen();
      write(screen, "x");
      await screen.send(vi.fn());
      expect([screen.conversation?.id, screen.unsent("c").text]).toEqual(["c", "x"]);
    }
    expect(api.deleteChat).not.toHaveBeenCalled();
    refuse(refusal);
    vi.mocked(api.getChat).mockResolvedValue(chat);
    vi.mocked(api.deleteChat).mockRejectedValue(boom);
    const screen = new ChatScreen();
    write(screen, "x");
    await screen.send(vi.fn());
    expect([screen.conversation?.id, screen.unsent("c").text]).toEqual(["c", "x"]);
  });
});

describe("navigation while a message is sent", () => {
  it("is not delayed, and the message is sent in its own chat", async () => {
    const open = delayed(vi.mocked(api.getChat), chat);
    const screen = new ChatScreen();
    screen.open("c");
    write(screen, "x");
    const sending = screen.send(vi.fn());
    screen.open("other");
    expect(screen.busy).toBe(false);
    open();
    await sending;
    expect(sent()).toEqual([["c", "pebble:latest"]]);
  });

  it("is not reverted, and text written there stays there", async () => {
    const go = delayed(vi.mocked(models.refresh), undefined);
    const [screen, created] = [new ChatScreen(), vi.fn()];
    write(screen, "first");
    const sending = screen.send(created);
    screen.open("other");
    screen.open(undefined);
    expect(screen.busy, "another new chat").toBe(false);
    write(screen, "second");
    await vi.waitFor(() => expect(models.refresh).toHaveBeenCalled());
    Object.assign(models, { installed: [pebble], hasList: true });
    go();
    await sending;
    expect([created.mock.calls.length, screen.conversation, screen.unsent("").text, sent().length]).toEqual([0, undefined, "second", 1]);
  });

  it("temporary chat stays temporary", async () => {
    const go = delayed(vi.mocked(models.refresh), undefined);
    const screen = new ChatScreen();
    screen.begin({ temporary: true });
    write(screen, "secret");
    const sending = screen.send(vi.fn());
    screen.begin();
    await vi.waitFor(() => expect(models.refresh).toHaveBeenCalled());
    Object.assign(models, { installed: [pebble], hasList: true });
    go();
    await sending;
    expect(vi.mocked(api.createChat).mock.calls[0]?.[0]).toMatchObject({ temporary: true });
  });

  it("unconfirmed message is not resent when the user navigates away", async () => {
    let say = (): void => {};
    let signal: AbortSignal | undefined;
    vi.mocked(api.sendMessage).mockImplementation(async function* (_, __, given) {
      signal = given;
      await new Promise<void>((resolve) => (say = resolve));
      yield { user: { id: "q", role: "user", content: "", created_at: "", state: "complete", versions: ["q"] } };
    });
    const screen = new ChatScreen();
    write(screen, "x");
    const sending = screen.send(vi.fn());
    await vi.waitFor(() => expect(api.sendMessage).toHaveBeenCalled());
    screen.open("other");
    expect(signal?.aborted).toBe(false);
    say();
    await sending;
    expect([signal?.aborted, screen.unsent("c").text], "it arrived").toEqual([true, ""]);
  });
});

it("message that arrived without a response is not sent again", async () => {
  const offline = new ApiError(0, "cut");
  vi.mocked(api.sendMessage).mockImplementation(async function* () {
    await Promise.reject(offline);
    yield {};
  });
  const q = { id: "q", role: "user", content: "x", created_at: "", state: "complete", versions: ["q"] };
  vi.mocked(api.getMessages).mockResolvedValue({ messages: [q as api.Message], total: 1, before: 0 });
  const screen = new ChatScreen();
  write(screen, "x");
  await screen.send(vi.fn());
  expect([screen.unsent("c").text, screen.conversation?.messages.length, screen.conversation?.refused]).toEqual(["", 1, undefined]);
  write(screen, "y");
  await screen.send(vi.fn());
  expect([screen.unsent("c").text, screen.conversation?.refused?.message], "a message that did not arrive returns to the composer").toEqual(["y", "cut"]);
});

it("missing model is reported once the list has loaded", async () => {
  vi.mocked(models.refresh).mockImplementation(() => Promise.resolve(void Object.assign(models, { hasList: true })));
  const screen = new ChatScreen();
  write(screen, "x");
  await screen.send(vi.fn());
  expect([String(screen.refused), screen.unsent("").text]).toEqual([expect.stringContaining("No model"), "x"]);
});

it("message longer than the context is reported before it is sent, and can be sent anyway", async () => {
  const small: TagsModel = { ...pebble, details: { ...pebble.details, context_length: 2048 } };
  vi.mocked(models.refresh).mockImplementation(() => Promise.resolve(void Object.assign(models, { installed: [small], hasList: true })));
  const count = vi.spyOn(cache, "countTokens").mockResolvedValue(3000);
  const screen = new ChatScreen();
  write(screen, "long ".repeat(1000));
  await screen.send(vi.fn());
  expect([screen.tooLong, sent().length]).toEqual([{ tokens: 3000, room: 2048, larger: undefined }, 0]);
  expect(screen.unsent("").text, "the text stays in the composer").toContain("long");
  await screen.send(vi.fn(), { anyLength: true });
  expect([screen.tooLong, sent().length, count.mock.calls.length]).toEqual([undefined, 1, 1]);
});
