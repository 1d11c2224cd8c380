// `/app/chats`. The daemon stores chats and generates answers, whether or not this page is open.
import { get, patch, post, put, query, remove, requestText, stream } from "./client";
import { live } from "./live.svelte";
import type * as types from "./types";

export type {
  AnswerRequest, AttachedFile, CallDecision, Chat, ChatChange, ChatFolder, ChatHit, ChatMessage as Message, ChatsExport, ChatsImported, ChatsResponse, ChatSummary, CollectionHit, DeletedMessages, MessagesResponse, NewChatRequest, Preset, SendRequest, Sources, Think, TierTokens, Truncated, Usage, Warmth, PromptReading, WeightsLoading,
} from "./types";

export type Options = types.Chat["options"];

/** A step of an answer, a call of a tool in it, and the call's state. */
export type Step = NonNullable<types.ChatMessage["steps"]>[number];
export type Call = Step["calls"][number];
export type CallState = Call["state"];

/** A union of objects with one key each, as one object with optional keys. */
type OneOf<U> = { [K in U extends unknown ? keyof U : never]?: U extends unknown ? (K extends keyof U ? U[K] : never) : never };

/** A line of an answer stream: one of its keys. */
export type ChatLine = OneOf<types.ChatLine>;
export type ChatEvent = OneOf<types.ChatEvent>;

const at = (id: string, rest = ""): string => `/app/chats/${encodeURIComponent(id)}${rest}`;

export const listChats = (ask: { folder?: string; trash?: boolean; temporary?: boolean; limit?: number; after?: string } = {}): Promise<types.ChatsResponse> =>
  get(`/app/chats${query(ask)}`);
export const createChat = (chat: types.NewChatRequest): Promise<types.Chat> => post("/app/chats", chat);
export const getChat = (id: string): Promise<types.Chat> => get(at(id));
export const changeChat = (id: string, change: types.ChatChange): Promise<types.Chat> => patch(at(id), change);
export const deleteChat = (id: string, forever = false): Promise<void> => remove(at(id, forever ? "?forever=true" : ""));
export const restoreChat = (id: string): Promise<types.Chat> => post(at(id, "/restore"));
export const getMessages = (id: string, ask: { leaf?: string; before?: string; limit?: number } = {}): Promise<types.MessagesResponse> =>
  get(at(id, `/messages${query(ask)}`));
export const setHead = (id: string, message: string): Promise<types.Chat> => put(at(id, "/head"), { message });
/** Adds an edited version of an answer, and shows it. */
export const editAnswer = (id: string, message: string, content: string): Promise<types.Chat> => post(at(id, "/edit"), { message, content });
/** Deletes a message and all that follow it. */
export const deleteMessage = (id: string, message: string): Promise<types.DeletedMessages> => remove(at(id, `/messages/${encodeURIComponent(message)}`));
export const restoreMessages = (id: string, deleted: types.DeletedMessages): Promise<types.Chat> => post(at(id, "/messages/restore"), deleted);
/** Copies the messages up to one into a new chat. */
export const forkChat = (id: string, fork: types.ForkRequest): Promise<types.Chat> => post(at(id, "/fork"), fork);
export const stopAnswer = (id: string): Promise<{ stopped: boolean }> => post(at(id, "/stop"));
/** Allows or refuses a call of a tool that waits. */
export const decideCall = (id: string, call: string, decision: types.CallDecision): Promise<void> => post(at(id, `/calls/${encodeURIComponent(call)}`), { decision });
export const prefetchChat = (id: string): Promise<types.ChatPrefetched> => post(at(id, "/prefetch"));
/** Most characters of a search; an address cannot hold more. */
const MOST_QUERY_CHARS = 1000;
export const searchChats = (q: string, limit = 30, signal?: AbortSignal): Promise<types.ChatSearchResponse> =>
  get(`/app/chats/search${query({ q: q.trim().slice(0, MOST_QUERY_CHARS), limit })}`, signal);
export const exportChat = (id: string, format: "json" | "md"): Promise<string> => requestText("GET", at(id, `/export${query({ format })}`));
export const exportChats = (): Promise<string> => requestText("GET", "/app/chats/export");
export const chatsToImport = (): Promise<types.ChatsToImport> => get("/app/chats/import");
export const importChats = (from: types.ChatsImportRequest): Promise<types.ChatsImported> => post("/app/chats/import", from);
export const listPresets = (): Promise<types.PresetsResponse> => get("/app/presets");
export const savePreset = (preset: types.Preset): Promise<types.Preset> => put(`/app/presets/${encodeURIComponent(preset.name)}`, preset);
export const deletePreset = (name: string): Promise<void> => remove(`/app/presets/${encodeURIComponent(name)}`);

/** Sends a message. The answer continues when the reader disconnects. */
export const sendMessage = (id: string, message: types.SendRequest, signal: AbortSignal): AsyncGenerator<ChatLine> =>
  stream("POST", at(id, "/messages"), { body: message, signal });
/** Generates another answer, or continues one. */
export const answerAgain = (id: string, ask: types.AnswerRequest, signal: AbortSignal): AsyncGenerator<ChatLine> =>
  stream("POST", at(id, "/answer"), { body: ask, signal });
/** Follows an answer that is being generated. */
export const attachAnswer = (id: string, signal: AbortSignal): AsyncGenerator<ChatLine> => stream("GET", at(id, "/answer"), { signal });

export const chatEvents = live<ChatEvent>("/app/chats/events");
