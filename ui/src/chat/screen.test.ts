import { beforeEach, describe, expect, it, vi } from "vitest";
import * as api from "../api/chats";
import { ApiError } from "../api/client";
import { models, type TagsModel } from "../api/models.svelte";
import { ChatScreen } from "./screen.svelte";

// The daemon's side is played here; the journeys in `e2e` speak with a real one.
vi.mock("../api/chats", () => ({ getChat: vi.fn(), getMessages: vi.fn(), sendMessage: vi.fn(), createChat: vi.fn(), prefetchChat: vi.fn() }));

const chat = { id: "c", title: "", pinned: false, created_at: "", updated_at: "1", messages: 0, warmth: "cold" as const, answering: false, temporary: false, options: {} };
const pebble: TagsModel = { name: "pebble:latest", model: "pebble:latest", modified_at: "", size: 1, digest: "", details: { family: "", parameter_size: "", quantization_level: "" } };
const sent = (): unknown[] => vi.mocked(api.sendMessage).mock.calls.map(([id, message]) => [id, message.model]);

beforeEach(() => {
  vi.resetAllMocks();
  Object.assign(models, { installed: [], loaded: [], known: false });
  vi.spyOn(models, "refresh").mockImplementation(() => {
    Object.assign(models, { installed: [pebble], known: true });
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

describe("somebody who is faster than the interface", () => {
  it("is sent once the list of models has come", async () => {
    const [screen, made] = [new ChatScreen(), vi.fn()];
    const sending = screen.send({ content: "x" }, made);
    expect(screen.busy, "and not twice").toBe(true);
    expect(await screen.send({ content: "x" }, made)).toBe(false);
    await sending;
    expect(sent()).toEqual([["c", "pebble:latest"]]);
    expect(made).toHaveBeenCalledExactlyOnceWith("c");
    expect(screen.busy).toBe(false);
  });

  it("is answered by the model of the chat that opens", async () => {
    await models.refresh();
    vi.mocked(api.getChat).mockResolvedValue({ ...chat, model: "other:latest" });
    const screen = new ChatScreen();
    screen.open("c");
    await screen.send({ content: "x" }, vi.fn());
    expect(sent()).toEqual([["c", "other:latest"]]);
  });

  it("says nothing into a chat that does not open", async () => {
    vi.mocked(api.getChat).mockRejectedValue(new ApiError(404, "no chat of that id"));
    const screen = new ChatScreen();
    screen.open("c");
    expect(await screen.send({ content: "x" }, vi.fn())).toBe(false);
    expect(screen.refused).toBe("no chat of that id");
    expect(sent()).toEqual([]);
  });

  it("keeps nobody from another chat", async () => {
    let open = (): void => {};
    vi.mocked(api.getChat).mockImplementationOnce(() => new Promise((resolve) => (open = () => resolve(chat))));
    const screen = new ChatScreen();
    screen.open("c");
    const sending = screen.send({ content: "x" }, vi.fn());
    screen.open("other");
    expect(screen.busy).toBe(false);
    open();
    await sending;
    expect(sent()).toEqual([["c", "pebble:latest"]]);
  });

  it("stays in the chat that was opened while a new one was made", async () => {
    const [screen, made] = [new ChatScreen(), vi.fn()];
    const sending = screen.send({ content: "x" }, made);
    screen.open("other");
    await sending;
    expect(screen.conversation?.id).toBe("other");
    expect(made).not.toHaveBeenCalled();
    expect(sent()).toEqual([["c", "pebble:latest"]]);
  });
});

it("says that there is no model once that is known", async () => {
  vi.mocked(models.refresh).mockImplementation(() => Promise.resolve());
  const screen = new ChatScreen();
  expect(await screen.send({ content: "x" }, vi.fn())).toBe(false);
  expect(screen.refused).toContain("no model");
});

it("lets another chat be asked while the first answer of a new one is computed", async () => {
  let end = (): void => {};
  vi.mocked(api.sendMessage).mockImplementation(async function* () {
    await new Promise<void>((resolve) => (end = resolve));
    yield { user: { id: "q", role: "user", content: "", created_at: "", state: "complete", versions: ["q"] } };
  });
  const screen = new ChatScreen();
  const sending = screen.send({ content: "x" }, vi.fn());
  await vi.waitFor(() => expect(api.sendMessage).toHaveBeenCalled());
  screen.open(undefined);
  expect(screen.busy).toBe(false);
  end();
  await sending;
});
