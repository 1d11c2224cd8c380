// Chats; `/app/chats`. The daemon keeps them and computes their answers, whether or not this page is there.
import { get, patch, post, put, query, remove, requestText, stream } from "./client";
import { live } from "./live.svelte";

export type Warmth = "hot" | "warm" | "disk" | "cold";
export type Think = boolean | "low" | "medium" | "high" | "max";
export type Options = Record<string, unknown>;

export interface ChatSummary {
  id: string;
  title: string;
  model?: string;
  folder?: string;
  pinned: boolean;
  created_at: string;
  updated_at: string;
  deleted_at?: string;
  messages: number;
  warmth: Warmth;
  answering: boolean;
  temporary: boolean;
}

export interface Chat extends ChatSummary {
  system?: string;
  options: Options;
  think?: Think;
  preset?: string;
  head?: string;
}

export interface ChatFolder {
  name: string;
  chats: number;
}

export interface ChatsResponse {
  pinned: ChatSummary[];
  chats: ChatSummary[];
  next?: string;
  folders: ChatFolder[];
}

export interface ChatRequest {
  title?: string;
  model?: string;
  folder?: string;
  system?: string;
  options?: Options;
  think?: Think;
  preset?: string;
  temporary?: boolean;
}

/** What is to change; `null` takes away. */
export interface ChatChange {
  title?: string;
  model?: string | null;
  folder?: string | null;
  pinned?: boolean;
  system?: string | null;
  options?: Options;
  think?: Think | null;
  preset?: string | null;
}

export interface TierTokens {
  tier: "ram" | "ssd" | "remote";
  tokens: number;
}

export interface Truncated {
  reason: "prompt_too_long" | "context_full";
  turns: number;
  messages: number;
  tokens: number;
  cut_tokens?: number;
  context_tokens: number;
}

export interface MessageStats {
  prompt_tokens: number;
  cached_tokens: number;
  tiers?: TierTokens[];
  restore_ms: number;
  instead_of_ms: number;
  recomputed?: string;
  load_ms: number;
  first_token_ms: number;
  answer_tokens: number;
  tokens_per_second: number;
  length_reached: boolean;
  truncated?: Truncated;
}

export interface AttachedFile {
  name: string;
  text: string;
}

export type MessageState = "complete" | "answering" | "stopped" | "cut" | "failed";

export interface Message {
  id: string;
  parent?: string;
  role: string;
  content: string;
  thinking?: string;
  thinking_ms?: number;
  /** Base64. */
  images?: string[];
  files?: AttachedFile[];
  created_at: string;
  model?: string;
  state: MessageState;
  error?: string;
  stats?: MessageStats;
  versions: string[];
}

export interface MessagesResponse {
  messages: Message[];
  total: number;
  /** How many come before the first one here. */
  before: number;
}

export interface SendRequest {
  /** The chat's head when absent; `null` for another beginning. */
  parent?: string | null;
  content: string;
  images?: string[];
  files?: AttachedFile[];
  model?: string;
  think?: Think;
  options?: Options;
}

export interface AnswerRequest {
  message?: string;
  continue?: string;
  model?: string;
  think?: Think;
  options?: Options;
}

/** A line of an answer: one of these keys. */
export interface ChatLine {
  user?: Message;
  answer?: Message;
  thinking?: string;
  text?: string;
  done?: Message;
  failed?: { error: string; message: Message };
}

export interface ChatEvent {
  chat?: ChatSummary;
  removed?: string;
  missed?: number;
}

export interface ChatHit {
  chat: string;
  title: string;
  message?: string;
  snippet: string;
  /** Begin and end of the words, in UTF-16 code units. */
  ranges: [number, number][];
}

export interface Preset {
  name: string;
  model?: string;
  system?: string;
  options: Options;
  think?: Think;
}

export interface ChatsImported {
  chats: number;
  messages: number;
  present: number;
  skipped: { title: string; reason: string }[];
}

const at = (id: string, rest = ""): string => `/app/chats/${encodeURIComponent(id)}${rest}`;

export const listChats = (ask: { folder?: string; trash?: boolean; temporary?: boolean; limit?: number; after?: string } = {}): Promise<ChatsResponse> =>
  get(`/app/chats${query(ask)}`);
export const createChat = (chat: ChatRequest): Promise<Chat> => post("/app/chats", chat);
export const getChat = (id: string): Promise<Chat> => get(at(id));
export const changeChat = (id: string, change: ChatChange): Promise<Chat> => patch(at(id), change);
export const deleteChat = (id: string, forever = false): Promise<void> => remove(at(id, forever ? "?forever=true" : ""));
export const restoreChat = (id: string): Promise<Chat> => post(at(id, "/restore"));
export const getMessages = (id: string, ask: { leaf?: string; before?: string; limit?: number } = {}): Promise<MessagesResponse> =>
  get(at(id, `/messages${query(ask)}`));
export const setHead = (id: string, message: string): Promise<Chat> => put(at(id, "/head"), { message });
export const stopAnswer = (id: string): Promise<{ stopped: boolean }> => post(at(id, "/stop"));
export const prefetchChat = (id: string): Promise<{ warmth: Warmth; contexts: number }> => post(at(id, "/prefetch"));
export const searchChats = (q: string, limit = 30, signal?: AbortSignal): Promise<{ hits: ChatHit[] }> =>
  get(`/app/chats/search${query({ q, limit })}`, signal);
export const exportChat = (id: string, format: "json" | "md"): Promise<string> => requestText("GET", at(id, `/export${query({ format })}`));
export const exportChats = (): Promise<string> => requestText("GET", "/app/chats/export");
export const importChats = (from: { export?: unknown; ollama_db?: string }): Promise<ChatsImported> => post("/app/chats/import", from);
export const listPresets = (): Promise<{ presets: Preset[] }> => get("/app/presets");
export const savePreset = (preset: Preset): Promise<Preset> => put(`/app/presets/${encodeURIComponent(preset.name)}`, preset);
export const deletePreset = (name: string): Promise<void> => remove(`/app/presets/${encodeURIComponent(name)}`);

/** Asks; the answer goes on when the reader goes away. */
export const sendMessage = (id: string, message: SendRequest, signal: AbortSignal): AsyncGenerator<ChatLine> =>
  stream("POST", at(id, "/messages"), { body: message, signal });
/** Another answer, or more of one. */
export const answerAgain = (id: string, ask: AnswerRequest, signal: AbortSignal): AsyncGenerator<ChatLine> =>
  stream("POST", at(id, "/answer"), { body: ask, signal });
/** Joins an answer that is being computed. */
export const attachAnswer = (id: string, signal: AbortSignal): AsyncGenerator<ChatLine> => stream("GET", at(id, "/answer"), { signal });

export const chatEvents = live<ChatEvent>("/app/chats/events");
