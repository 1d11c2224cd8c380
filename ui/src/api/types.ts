// Requests and responses of the daemon. Generated from src-tauri/crates/wire by `cargo xtask gen`: do not edit.
/* eslint-disable */

/** A tier. */
export type TierName =
  /** This machine's memory. */
  | "ram"
  /** A folder on this machine's disk. */
  | "ssd"
  /** A folder or a bucket elsewhere. */
  | "remote";

/** `GET /app/cache`, and each line of `GET /app/cache/events`, which has one whenever something changed. */
export type CacheResponse = {
  /** Those that there are, nearest first; none where nothing is kept. */
  tiers: CacheTier[];
  /** Path of the folder on this machine. */
  folder?: string;
  /** The place elsewhere: a path or an address. */
  remote?: string;
  /** Where the key is that encrypts files, in words; none where none are encrypted. */
  key?: string;
  /** Tokens of prompts that were asked since the daemon started. */
  prompt_tokens: number;
  /** Of these, tokens that need not be computed, because a page in memory or a tier had them. */
  cached_tokens: number;
  /** What computing the restored ones would have taken beyond restoring them, since the day (UTC) or the daemon began. */
  saved_today_ms: number;
  /** Restores that ended early, because a chunk was damaged, not there or late. */
  cut_short: number;
  /** Chunks that were to be written down and were not, since a queue or a place was full, or too much was written that day. */
  dropped: number;
};

/** A tier now, and what it has done since the daemon started. */
export type CacheTier = {
  /** Which. */
  tier: TierName;
  /** `up`, `scanning`, `read_only`, `suspect` or `away`. */
  health: string;
  /** Why it is not `up`. */
  reason?: string;
  /** Bytes that it may hold. */
  budget_bytes: number;
  /** Bytes that it holds, as they lie there. */
  used_bytes: number;
  /** Chunks in it. */
  chunks: number;
  /** Bytes that wait to be written to it. */
  queued_bytes: number;
  /** Bytes that were put there. */
  stored_bytes: number;
  /** Bytes that came from there. */
  restored_bytes: number;
  /** Tokens that need not be computed, because it had them. */
  hit_tokens: number;
  /** Bytes that had to go to make room. */
  evicted_bytes: number;
  /** Bytes written to it today (UTC). */
  written_today_bytes: number;
  /** Bytes that reads give in a second, lately. */
  read_bytes_per_second?: number;
  /** Chunks that were damaged. */
  damaged: number;
};

/** `GET /app/cache/contexts`. */
export type CacheContexts = {
  /** The last used first. */
  contexts: CacheContext[];
};

/** A kept conversation, or another prompt. */
export type CacheContext = {
  /** Names it, for as long as it is kept. */
  id: string;
  /** Whose it is, by the names that clients gave in `X-Cairn-Owner`. */
  owners: string[];
  /** The model, where its name is known. */
  model?: string;
  /** Tokens from its beginning. */
  tokens: number;
  /** Bytes of its rows; others may share some of them. */
  bytes: number;
  /** Of these, bytes in RAM. */
  ram_bytes: number;
  /** On the disk. */
  ssd_bytes: number;
  /** Elsewhere. */
  remote_bytes: number;
  /** How often it was used again. */
  hits: number;
  /** When it was used last. */
  last_used_at: Timestamp;
  /** Whether it stays. */
  pinned: boolean;
};

/**
 * `POST /app/cache/pin`, `unpin` and `drop`: which context. Pinning is answered by [`CacheContexts`], dropping by
 * [`CacheDeleted`].
 */
export type CacheWhich = {
  /** An id, or at least the first four letters of one. */
  context: string;
};

/** `POST /app/cache/prefetch` and `DELETE /app/cache/owner`: whose. */
export type CacheOwner = {
  /** As in `X-Cairn-Owner`. */
  owner: string;
};

/** What `POST /app/cache/prefetch` brings up to RAM. */
export type CachePrefetched = {
  /** How many contexts are the owner's. */
  contexts: number;
};

/** `POST /app/cache/clear`. Answered by [`CacheDeleted`] when all of it has been removed. */
export type CacheClear = {
  /** One tier; all of them, and pages of loaded models, when absent. */
  tier?: TierName;
};

/** What was deleted. */
export type CacheDeleted = {
  /** Chunks that nobody finds any more. */
  chunks: number;
  /** Of their files, those that could not be removed yet; that is tried again. */
  left: number;
};

/** `GET /app/cache/limits`: how much the tiers may take, and where. */
export type CacheLimits = {
  /** Bytes of RAM. */
  ram_bytes: CacheLimit<number>;
  /** The folder on this machine. */
  folder: CacheLimit<string>;
  /** Bytes of it. */
  folder_bytes: CacheLimit<number>;
  /** Whether some of this holds only when the daemon is started anew. */
  at_next_start: boolean;
};

/** A limit. */
export type CacheLimit<T> = {
  /** The limit; absent where there is no such tier. */
  value: T | null;
  /** The environment variable that sets it; then it cannot be changed here. */
  variable?: string;
};

/** `PUT /app/cache/limits`: what is to change, all of it or nothing. Answered by [`CacheLimits`]. */
export type CacheLimitsChange = {
  /** Bytes of RAM; 0 for none. */
  ram_bytes?: number;
  /** An absolute path. */
  folder?: string;
  /** Bytes of the folder. */
  folder_bytes?: number;
};

/** `POST /app/cache/trace`: what is kept of a prompt. Answered by a [`CacheTrace`]. */
export type CacheTraceRequest = {
  /** The model's name. */
  model: string;
  /** A conversation; one message of a user is a prompt. */
  messages: Message[];
  /** The messages' texts are the prompt, without the model's template. */
  raw?: boolean;
  /** Options of the request; `num_ctx` decides with which context the model is loaded. */
  options?: Record<string, unknown>;
};

/** What is kept of a prompt, and why it is not more. */
export type CacheTrace = {
  /** Tokens of the whole prompt, even where it is longer than the context. */
  tokens: number;
  /** Of these, tokens that the loaded model has in memory. */
  memory_tokens: number;
  /** Tokens that the tiers have. */
  kept_tokens: number;
  /** Of these, tokens by tier. */
  tiers: TierTokens[];
  /**
   * `whole`, `changed`, `ends`, `never`, `evicted`, `expired`, `deleted`, `lost`, `other_arithmetic`, `rounded`, `suspect`,
   * `away` or `not_kept`.
   */
  reason: string;
  /** The token at which it changed. */
  changed_at?: number;
  /** What is kept there. */
  kept_text?: string;
  /** What was asked for there. */
  asked_text?: string;
};

/** Tokens in one tier. */
export type TierTokens = {
  /** Which. */
  tier: TierName;
  /** How many. */
  tokens: number;
};

/** `GET /app/cache/fsck`: every chunk of the folder, read to the last byte. */
export type CacheFsck = {
  /** The folder. */
  folder: string;
  /** Chunks that are what was written. */
  whole: number;
  /** The room that those take. */
  whole_bytes: number;
  /** Files that are not. */
  damaged: DamagedChunk[];
  /** Files that could not be read. */
  unread: DamagedChunk[];
  /** Whole chunks that nobody can use, because a chunk before them is not there. */
  orphans: number;
  /** The room that those take. */
  orphan_bytes: number;
  /** Damaged files that were put aside before. */
  aside: number;
  /** Files that other installations keep there, which are left alone. */
  foreign: number;
  /** Whether what is damaged or of no use was removed. */
  fixed: boolean;
};

/** A file that is not what it should be. */
export type DamagedChunk = {
  /** Its path. */
  path: string;
  /** What is wrong. */
  reason: string;
};

/** `GET /app/chats/export`, and of one chat `GET /app/chats/{id}/export?format=json`. */
export type ChatsExport = {
  /** `cairn-chats`. */
  format: string;
  /** Version of the format; 1. */
  version: number;
  /** When it was written. */
  exported_at: Timestamp;
  /** The chats, the last changed first. */
  chats: ExportedChat[];
};

/** A chat with all its branches. */
export type ExportedChat = {
  id: string;
  title: string;
  model?: string;
  folder?: string;
  pinned: boolean;
  created_at: Timestamp;
  updated_at: Timestamp;
  system?: string;
  options: Record<string, unknown>;
  think?: Think;
  head?: string;
  /** Each after the one that it follows. */
  messages: ExportedMessage[];
};

/** A message of an [`ExportedChat`]. */
export type ExportedMessage = {
  id: string;
  parent?: string;
  role: string;
  content: string;
  thinking?: string;
  thinking_ms?: number;
  images?: string[];
  files?: AttachedFile[];
  created_at: Timestamp;
  model?: string;
  state: MessageState;
  error?: string;
  stats?: MessageStats;
};

/** `GET /app/chats/import`: chats of other apps that are on this machine. */
export type ChatsToImport = {
  /** The database of Ollama's own app; absent where there is none at its usual place. */
  ollama_db?: string;
};

/** `POST /app/chats/import`: one of the two. Answered by [`ChatsImported`]. */
export type ChatsImportRequest = {
  /** What an export has written. */
  export?: ChatsExport;
  /** Absolute path of the database of Ollama's own app; it is only read. */
  ollama_db?: string;
};

/** What an import has brought. All of it is there, or nothing. */
export type ChatsImported = {
  /** Chats that are new. */
  chats: number;
  /** Their messages. */
  messages: number;
  /** Chats that were here already. */
  present: number;
  /** Chats that could not be brought. */
  skipped: SkippedChat[];
};

/** A chat that an import left out. */
export type SkippedChat = {
  /** What it is called, or its id. */
  title: string;
  /** Why. */
  reason: string;
};

/** `GET /app/presets`. */
export type PresetsResponse = {
  /** By name. */
  presets: Preset[];
};

/** `GET|PUT|DELETE /app/presets/{name}`: what a new chat begins with. */
export type Preset = {
  /** What it is called; the path's name goes before it. */
  name: string;
  /** The model. */
  model?: string;
  /** What the model is told first. */
  system?: string;
  /** Options of every request. */
  options: Record<string, unknown>;
  /** Whether the model thinks first. */
  think?: Think;
};

/** A message of a chat. */
export type ChatMessage = {
  /** Names it. */
  id: string;
  /** The message before it; absent for a first one. */
  parent?: string;
  /** `user` or `assistant`; what was brought in may have others. */
  role: string;
  /** Its text, in Markdown where a model wrote it. */
  content: string;
  /** What the model thought before. */
  thinking?: string;
  /** For how long it thought. */
  thinking_ms?: number;
  /** Images that came with it, in base64. */
  images?: string[];
  /** Text files that came with it. */
  files?: AttachedFile[];
  /** When it was written. */
  created_at: Timestamp;
  /** The model that wrote it. */
  model?: string;
  /** Whether it is all there. */
  state: MessageState;
  /** Why it failed. */
  error?: string;
  /** What it cost, once it is there. */
  stats?: MessageStats;
  /** The messages after the same one, in the order of their making, itself among them. */
  versions: string[];
};

/** Whether a message is all there. */
export type MessageState =
  /** It is. */
  | "complete"
  /** It is being computed. */
  | "answering"
  /** Its user stopped it. */
  | "stopped"
  /** The daemon ended in the middle of it. */
  | "cut"
  /** Something went wrong in the middle of it. */
  | "failed";

/** A text file that came with a message. The model reads it before the message's text. */
export type AttachedFile = {
  /** Its name, without folders. */
  name: string;
  /** What is in it. */
  text: string;
};

/** What an answer cost. */
export type MessageStats = {
  /** Tokens of the whole prompt. */
  prompt_tokens: number;
  /** Of these, tokens that were found computed. */
  cached_tokens: number;
  /** Of these, tokens that came back from a tier, nearest first; the others were in the pages of the loaded model. */
  tiers?: TierTokens[];
  /** What bringing them back took. */
  restore_ms: number;
  /** What computing them would have taken, by what computing has taken lately. */
  instead_of_ms: number;
  /** Why what came before in this chat was not found computed: a reason as `POST /app/cache/trace` has it. */
  recomputed?: string;
  /** Loading the model. */
  load_ms: number;
  /** From the request to the first piece of the answer. */
  first_token_ms: number;
  /** Tokens of the answer, thinking among them. */
  answer_tokens: number;
  /** How fast they came. */
  tokens_per_second: number;
  /** Whether the answer ended because a limit of tokens was reached. */
  length_reached: boolean;
  /** What did not fit into the context. */
  truncated?: Truncated;
};

/** `GET /app/chats/{id}/messages?leaf=&before=&limit=`: the last `limit` messages before `before`, of those that lead to `leaf`. */
export type MessagesResponse = {
  /** From the first to the last. */
  messages: ChatMessage[];
  /** All messages that lead to `leaf`. */
  total: number;
  /** How many of them come before the first one here. */
  before: number;
};

/** `POST /app/chats/{id}/messages`: asks. Answered by [`ChatLine`]s. */
export type SendRequest = {
  /** The message before it: the chat's head when absent, and `null` for another beginning. */
  parent?: string | null;
  /** What is said. */
  content?: string;
  /** Images, in base64. */
  images?: string[];
  /** Text files. */
  files?: AttachedFile[];
  /** The model that is to answer, from now on; the chat's when absent. */
  model?: string;
  /** Whether it is to think first, this time. */
  think?: Think;
  /** Options, this time; they go before the chat's. */
  options?: Record<string, unknown>;
};

/** `POST /app/chats/{id}/answer`: one of `message` and `continue`. Answered by [`ChatLine`]s. */
export type AnswerRequest = {
  /** The user's message that is to get another answer. */
  message?: string;
  /** The answer that is to go on from where it ends. */
  continue?: string;
  /** The model that is to answer, from now on; the chat's when absent. */
  model?: string;
  /** Whether it is to think first, this time. */
  think?: Think;
  /** Options, this time; they go before the chat's. */
  options?: Record<string, unknown>;
};

/**
 * `PUT /app/chats/{id}/head`: the version that is shown from now on. Answered by a [`super::Chat`], whose head is the last
 * message of that branch.
 */
export type HeadRequest = {
  /** Any message of the branch. */
  message: string;
};

/** `POST /app/chats/{id}/stop`, when the answer has ended. */
export type StoppedResponse = {
  /** Whether there was one. */
  stopped: boolean;
};

/** One line of an answer that streams. */
export type ChatLine =
  /** The message that was asked, once; not where an answer is attached to. */
  | { user: ChatMessage }
  /** The answer, once, with what it has so far. */
  | { answer: ChatMessage }
  /** More of what the model thinks. */
  | { thinking: string }
  /** More of what it says. */
  | { text: string }
  /** The answer, which is complete or was stopped; nothing follows. */
  | { done: ChatMessage }
  /** The answer, which stays as it is; nothing follows. */
  | { failed: FailedAnswer };

/** An answer that failed. */
export type FailedAnswer = {
  /** Why. */
  error: ErrorBody;
  /** As far as it came. */
  message: ChatMessage;
};

/** `GET /app/chats?folder=&trash=&limit=&after=`. */
export type ChatsResponse = {
  /** Those that are pinned, the last changed first; on the first page only. */
  pinned: ChatSummary[];
  /** The others, the last changed first. */
  chats: ChatSummary[];
  /** What to send as `after` for those that follow; absent where none do. */
  next?: string;
  /** All folders that have a chat, by name; on the first page only. */
  folders: ChatFolder[];
};

/** A folder of chats. It is there for as long as a chat is in it. */
export type ChatFolder = {
  /** Its name. */
  name: string;
  /** Chats in it, without those in the trash. */
  chats: number;
};

/** What lists say of a chat. */
export type ChatSummary = {
  /** Names it. */
  id: string;
  /** What it is called; empty before anything was said. */
  title: string;
  /** The model that answers next. */
  model?: string;
  /** The folder that it is in. */
  folder?: string;
  /** Whether it stays on top. */
  pinned: boolean;
  /** When it began. */
  created_at: Timestamp;
  /** When something was last said in it. */
  updated_at: Timestamp;
  /** When it was put into the trash. */
  deleted_at?: Timestamp;
  /** Messages in all its branches. */
  messages: number;
  /** How soon it could go on. */
  warmth: Warmth;
  /** Whether an answer is being computed. */
  answering: boolean;
  /** Whether it is only in memory, and gone when the daemon ends. */
  temporary: boolean;
};

/** Where what was computed of a chat is kept. */
export type Warmth =
  /** In the pages of a loaded model. */
  | "hot"
  /** In RAM. */
  | "warm"
  /** On this machine's disk, or in the remote tier. */
  | "disk"
  /** Nowhere. */
  | "cold";

/** `GET /app/chats/{id}`. */
export type Chat = {
  /** What the model is told first; the model's own when absent. */
  system?: string;
  /** Options of every request, as in `/api/chat`. */
  options: Record<string, unknown>;
  /** Whether the model thinks first; as the model does when absent. */
  think?: Think;
  /** The preset that it was made from. */
  preset?: string;
  /** The last message of the branch that is shown. */
  head?: string;
} & ChatSummary;

/** `POST /app/chats`. Answered by a [`Chat`]. */
export type NewChatRequest = {
  /** What it is called; from what is said in it when absent. */
  title?: string;
  /** The model that is to answer. */
  model?: string;
  /** The folder that it is to be in. */
  folder?: string;
  /** What the model is told first. */
  system?: string;
  /** Options of every request. */
  options?: Record<string, unknown>;
  /** Whether the model is to think first. */
  think?: Think;
  /** A preset, which says what the other fields do not. */
  preset?: string;
  /** Leave nothing on any disk. */
  temporary?: boolean;
};

/** `PATCH /app/chats/{id}`: what is to change. `null` takes away what can be without. Answered by a [`Chat`]. */
export type ChatChange = {
  /** What it is called; an empty one is made up again. */
  title?: string;
  /** The model that is to answer. */
  model?: string | null;
  /** The folder. */
  folder?: string | null;
  /** Whether it stays on top. */
  pinned?: boolean;
  /** What the model is told first. */
  system?: string | null;
  /** Options of every request, all of them. */
  options?: Record<string, unknown>;
  /** Whether the model is to think first. */
  think?: Think | null;
  /** The preset whose name is shown. */
  preset?: string | null;
};

/** One line of `GET /app/chats/events`, which has one for each change from when it was asked. */
export type ChatEvent =
  /** The chat is new, or looks different in a list. */
  | { chat: ChatSummary }
  /** The chat of this id is in the trash, or gone. */
  | { removed: string }
  /** So many changes were not told, because they were read too slowly: list again. */
  | { missed: number };

/** `GET /app/chats/search?q=&limit=`. */
export type ChatSearchResponse = {
  /** Titles first, then messages; of each the newest first. */
  hits: ChatHit[];
};

/** A message, or a title, that has all the words of a search. */
export type ChatHit = {
  /** The chat's id. */
  chat: string;
  /** The chat's title. */
  title: string;
  /** The message's id; absent where the title has the words. */
  message?: string;
  /** The text around the words. */
  snippet: string;
  /** Where the words are in it: begin and end of each, in UTF-16 code units, as JavaScript counts. */
  ranges: [number, number][];
};

/** `POST /app/chats/{id}/prefetch`. */
export type ChatPrefetched = {
  /** How soon the chat could go on, before anything was brought nearer. */
  warmth: Warmth;
  /** How many of its prefixes are being brought to RAM. */
  contexts: number;
};

/** The first line, at once. */
export type DesktopPlaces = {
  /** Absolute path of the folder for what the window remembers. */
  config_folder: string;
  /** Absolute path of the daemon's log. */
  log_file: string;
};

/** The second line, once the daemon answers, which may have to be started first. */
export type DesktopServer = {
  /** Where it is, `http://127.0.0.1:11434` for instance. */
  address: string;
  /** What `/app` wants to see as `Authorization: Bearer`. */
  token: string;
};

/** What was found. `cairn search --json` prints it, too. */
export type DiscoverResponse = {
  /** Models, those of the catalogue that comes with Cairn first. */
  models: DiscoveredModel[];
  /** What is missing from them and why, in one line. */
  trouble?: string;
};

/** A model that can be pulled. */
export type DiscoveredModel = {
  /** The name to pull it by: of a variant that suits most machines, where one is known. */
  name: string;
  /** What it is called there: `qwen3`, or `user/repository`. */
  title: string;
  /** Who has it. */
  from: DiscoveredFrom;
  /** What it is, in a sentence; empty where nobody said. */
  about?: string;
  /** What it is good for: `chat`, `code`, `text-generation`, ... */
  tasks?: string[];
  /** Under which licence, as its publisher calls it. */
  licence?: string;
  /** How often it was fetched lately, where that is counted. */
  downloads?: number;
  /** It, or a variant of it, is a model here already. */
  here: boolean;
  /** What can be pulled of it, the smallest first; empty where that is unknown. */
  variants: DiscoveredVariant[];
};

/** One thing to pull. */
export type DiscoveredVariant = {
  /** The name to pull it by: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`. */
  name: string;
  /** How many parameters it has, `8.2B` for instance. */
  parameters?: string;
  /** Which type its weights have. */
  quantization?: string;
  /** Bytes to fetch. */
  size: number;
  /** The size is from a list and may have changed. */
  estimated: boolean;
  /** It is a model here already. */
  here: boolean;
};

/** Who has a model. */
export type DiscoveredFrom =
  /** Ollama's library. */
  | "library"
  /** Hugging Face. */
  | "hugging_face";

/** `GET /app/downloads`, and each line of `GET /app/downloads/events`, which has one whenever something changed. */
export type DownloadsResponse = {
  /** In the order in which they run. */
  downloads: Download[];
  /** The most bytes per second of all together; absent where there is no limit. */
  limit_bytes_per_second?: number;
};

/** A model that is on its way. */
export type Download = {
  /** Names it while this daemon runs. */
  id: number;
  /** The model. */
  model: string;
  /** What is done for it. */
  state: DownloadState;
  /** Bytes of the model; 0 while its manifest is not here. */
  total: number;
  /** Bytes of it that are here. */
  completed: number;
  /** Over the last seconds. */
  bytes_per_second: number;
  /** At that speed; absent while nothing comes. */
  eta_seconds?: number;
  /** Bytes of the disk that discarding it would free. */
  held_bytes: number;
  /** The host that bytes come from. */
  source?: string;
  /** What went wrong last and was got round. */
  trouble?: string;
  /** Why it failed. */
  error?: ErrorBody;
  /** It goes on when nobody watches. */
  detached: boolean;
};

/** What is done for a download. */
export type DownloadState =
  /** It waits for its turn. */
  | "queued"
  /** Bytes come, or are asked for. */
  | "running"
  /** Its user paused it; it stays so when the daemon starts anew. */
  | "paused"
  /** Whoever wanted it went away, or its user stopped it. */
  | "stopped"
  /** Something is in the way. */
  | "failed"
  /** The model is here. */
  | "done";

/** `POST /app/downloads`: fetches a model whether or not anybody watches. Answered by a [`Download`]. */
export type DownloadRequest = {
  /** The model's name. */
  model: string;
  /** Whether the registry may be asked over plain `http`. */
  insecure?: boolean;
  /** Addresses of mirrors to take contents from before the registry. */
  sources?: string[];
};

/** `POST /app/downloads/pause`, `resume`, `cancel` and `discard`: which one. Answered by a [`DownloadsResponse`]. */
export type DownloadChoice = {
  /** An id, or the name of the model. */
  download: string;
};

/** `POST /app/downloads/reorder`. Answered by a [`DownloadsResponse`]. */
export type ReorderRequest = {
  /** An id, or the name of the model. */
  download: string;
  /** Its place among all, counted from 0. */
  position: number;
};

/** `POST /app/downloads/cap`. Answered by a [`DownloadsResponse`]. */
export type CapRequest = {
  /** The most bytes per second of all downloads together; none, or 0, for no limit. */
  bytes_per_second?: number;
};

/** The machine now. Each line of `GET /app/hardware/events` is one too, every two seconds. */
export type HardwareResponse = {
  cpu: HardwareCpu;
  memory: HardwareMemory;
  kernels: HardwareKernels;
  /** Empty where none was found, or where this system is not asked for them yet. */
  gpus: HardwareGpu[];
  disks: HardwareDisk[];
};

/** The processor. */
export type HardwareCpu = {
  /** Its maker's name for it; empty where the system does not say. */
  brand: string;
  /** `x86_64`, `aarch64`, ... */
  architecture: string;
  /** Cores of the whole machine. */
  physical_cores: number;
  /** Hardware threads of the whole machine. */
  logical_cores: number;
  /** Cores that Cairn computes on: affinity and a container's quota count. */
  used_cores: number;
  /** Instruction sets that count for computing, `avx2` for instance. */
  features: string[];
};

/** Main memory. */
export type HardwareMemory = {
  /** Of the whole machine. */
  total_bytes: number;
  /** A container's limit, where there is one below that. */
  limit_bytes?: number;
  /** What could be had now without swapping. */
  available_bytes: number;
  /** What the daemon has, mapped model files that are in memory among them; absent where the system does not say. */
  ours_bytes?: number;
  /** Of `ours_bytes`, weights and other files that are mapped: the system takes them back when it needs room. */
  ours_mapped_bytes?: number;
  /** Bytes of kept prefixes in RAM. */
  kept_bytes: number;
};

/** Variants of the compute kernels. */
export type HardwareKernels = {
  /** The name of the one that computes. */
  in_use: string;
  /** All of this build, the best first. */
  variants: KernelVariant[];
};

/** A variant of the compute kernels. */
export type KernelVariant = {
  /** `avx2-fma-f16c` for instance; what the setting `engine.kernel` takes. */
  name: string;
  /** Whether this processor can run it. */
  usable: boolean;
  /** Whether it is the one that computes. */
  in_use: boolean;
  /** What this processor lacks for it. */
  lacks?: string[];
};

/** A graphics processor. */
export type HardwareGpu = {
  /** Its name, or its maker and number. */
  name: string;
  /** `nvidia`, `amd`, `intel`, `apple` or another word. */
  vendor: string;
  /** The driver that has it, with its version where that is known. */
  driver?: string;
  /** Its own memory, where that is known. */
  memory_bytes?: number;
  /** Whether this version of Cairn computes on it. */
  used: boolean;
};

/** A disk that Cairn keeps something on. */
export type HardwareDisk = {
  /** What is there. */
  holds: DiskHolds;
  /** The folder. */
  path: string;
  /** Of the disk; absent where the system does not say. */
  total_bytes?: number;
  /** What this user may still write. */
  free_bytes?: number;
};

/** What is on a disk. */
export type DiskHolds =
  /** The library of models that is written. */
  | "models"
  /** A library that is only read. */
  | "linked"
  /** Kept prefixes. */
  | "cache"
  /** Chats, and what else is the user's. */
  | "data";

/** `GET /app/libraries`: all libraries, the one that is written first. */
export type LibrariesResponse = {
  /** One row each. */
  libraries: Library[];
};

/** A library of models. */
export type Library = {
  /** Its folder. */
  path: string;
  /** What it is to its user. */
  role: LibraryRole;
  /** Whether it is there. */
  state: LibraryState;
  /** Why it is not there, or cannot be read. */
  reason?: string;
  /** Whether its absence is news: our own library is made with its first model. */
  missed: boolean;
  /** Models in it. */
  models: number;
  /** Manifests in it that cannot be read. */
  skipped?: SkippedFile[];
};

/** A manifest that cannot be read. */
export type SkippedFile = {
  path: string;
  reason: string;
};

/** What a library is to its user. */
export type LibraryRole =
  /** New models go there. */
  | "own"
  /** The user named it; it is only read. */
  | "linked"
  /** It is Ollama's; it is only read. */
  | "found";

/** Whether a library is there. */
export type LibraryState =
  /** It is. */
  | "present"
  /** It is not; its disk may not be mounted. */
  | "absent"
  /** It is, and cannot be read. */
  | "unreadable";

/** `GET /app/usage`: what the libraries take on their disks. */
export type UsageResponse = {
  /** One row each. */
  libraries: LibraryUsage[];
  /** Bytes of all of them together: models, what nobody needs, downloads. */
  total_bytes: number;
};

/** What a library takes. Contents that several of its models have are counted once. */
export type LibraryUsage = {
  library: Library;
  /** The largest first. */
  models: ModelUsage[];
  /** Bytes of all that models have. */
  model_bytes: number;
  /** Those of them that more than one model has. */
  shared_bytes: number;
  /** Contents that no model has. */
  unreferenced_bytes: number;
  unreferenced_files: number;
  /** Downloads under way, or broken off. */
  partial_bytes: number;
  partial_files: number;
  /** Bytes that are free on its disk; `null` where that cannot be told. */
  free_bytes: number | null;
};

/** What a model takes. */
export type ModelUsage = {
  /** Its name. */
  model: string;
  /** Bytes that no other model has: what deleting it frees. */
  own_bytes: number;
  /** Bytes that other models have too. */
  shared_bytes: number;
  /** Contents of it that are not there. */
  missing: number;
};

/** `POST /app/logins`: tries a name and a password at a registry, and keeps them for it. */
export type LoginRequest = {
  /** `host[:port]`. */
  registry: string;
  /** The user's name there. */
  user: string;
  /** The password, or a token that stands for one. */
  password: string;
  /** Hosts of token servers that are given the password too. */
  token_servers?: string[];
  /** Whether plain http will do, also for the password. */
  insecure?: boolean;
};

/** `POST /app/logins/forget`. */
export type LogoutRequest = {
  /** `host[:port]`. */
  registry: string;
};

/** `GET /app/logins`. */
export type LoginsResponse = {
  /** In the order of their hosts. */
  logins: KnownLogin[];
};

/** Who the user is to a registry. */
export type KnownLogin = {
  /** `host[:port]`. */
  registry: string;
  /** The user's name there. */
  user: string;
};

/** `GET /app/mirror`, and the answer to what changes it. */
export type MirrorResponse = {
  /** Whether other machines may read models here. */
  shares: boolean;
  /** Whether what is missing is fetched for clients. */
  fetches: boolean;
  /** From where, `host/namespace` each. */
  origins: string[];
  /** This machine's public key. */
  key: string;
  /** Its fingerprint, for people to compare. */
  fingerprint: string;
  /** Answers with a blob that was here. */
  hits: number;
  /** Answers with a blob that was fetched for the client, or for another one at the time. */
  misses: number;
  /** Answers with a manifest whose origin could not be asked. */
  stale: number;
  /** Bytes of blobs that came from origins for clients. */
  fetched_bytes: number;
  /** Bytes of blobs that were sent, to all clients together. */
  sent_bytes: number;
  /** Who read models since the daemon started, the one that took most first. */
  clients: MirrorClient[];
  /** Keys for whose owners models are fetched. */
  known: KnownKey[];
  /** Mirrors that this machine joined. */
  joined: KnownKey[];
  /** Machines that were found on the local network, by name. */
  nearby: FoundMachine[];
};

/** A machine that reads models here. */
export type MirrorClient = {
  address: string;
  requests: number;
  refused: number;
  open: number;
  sent_bytes: number;
  asked_at: Timestamp;
};

/** A machine of the local network, as it announces itself. Nothing proves what it says. */
export type FoundMachine = {
  /** Its name. */
  name: string;
  /** Where it listens, with the port. */
  address: string;
  /** Its version of this program. */
  version: string;
  /** The fingerprint of the key that it says it has. */
  fingerprint: string;
  /** That key is known here. Otherwise it is asked for contents whose digest is known, and for nothing else. */
  joined: boolean;
  /** It sent wrong bytes, and is not asked any more. */
  dropped: boolean;
  /** When it was last heard of. */
  seen_at: Timestamp;
  /** Bytes that came from it. */
  got_bytes: number;
};

/** A key, and what it is called here: by a name, or by the address of a mirror. */
export type KnownKey = {
  label: string;
  key: string;
  fingerprint: string;
};

/** The answer to `POST /app/mirror/invite`. */
export type InviteResponse = {
  /** To be typed at the other machine. */
  code: string;
  /** Until when it is good. */
  until: Timestamp;
};

/** `POST /app/mirror/join`. */
export type JoinMirrorRequest = {
  /** `http://nas:11434`. */
  address: string;
  /** What the mirror shows. */
  code: string;
};

/** `POST /app/mirror/allow`. */
export type AllowRequest = {
  /** `ssh-ed25519 AAAA... name`. */
  key: string;
};

/** `POST /app/mirror/forget`. */
export type ForgetRequest = {
  /** A label, a key or a fingerprint. */
  which: string;
};

/** What `cairn list --json` prints. */
export type ListedModels = {
  /** As `/api/tags` has them. */
  models: TagsModel[];
  /** Where they were looked for; empty when another server than our daemon was asked. */
  libraries: Library[];
};

/**
 * `POST /app/copy`: how far a [`crate::ollama::CopyRequest`] of our own clients has come; the last one is
 * [`CopyLine::Success`], or an error. Within a library there is no other.
 */
export type CopyLine =
  /** Its digest is computed. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** It is copied, and its digest computed on the way. */
  | ({ status: "copying" } & {
      completed: number;
      total: number;
    })
  /** The model has its second name. */
  | ({ status: "success" } & CopyResponse);

/** A copy that was made. */
export type CopyResponse = {
  /** The model's name, as it was sent. */
  source: string;
  /** Its second name, as it is spelled in the library. */
  destination: string;
  /** Bytes that were written for it; `None` when another server than our daemon did it. */
  copied_bytes: number | null;
};

/** `POST /app/delete`: the answer to [`crate::ollama::DeleteRequest`] when our own clients ask. */
export type DeleteResponse = {
  /** The model's name, as it was spelled in the library. */
  model: string;
  /** Bytes of disk that are free now; `None` when another server than our daemon did it. */
  freed_bytes: number | null;
};

/** `POST /app/scan`. Answered by [`ScanLine`]s. */
export type ScanRequest = {
  /** Folders to look through, by their absolute paths. */
  folders?: string[];
  /** Look where other apps keep their models too. */
  apps?: boolean;
  /** Read the files, to tell which contents are here. */
  digests?: boolean;
};

/** How far a scan has come; the last one is [`ScanLine::Done`], or an error. */
export type ScanLine =
  /** Files are read. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** All that was to be looked through was. */
  | ({ status: "done" } & ScannedModels);

/** What a scan found. */
export type ScannedModels = {
  /** Models, and what goes with them. */
  models: FoundModel[];
  /** Folders that are there and were looked through. */
  folders: ScannedFolder[];
  /** Folders that could not be looked through. */
  skipped: SkippedFile[];
  /** A folder beyond which nothing was looked at, because it is too deep or there is too much. */
  cut?: string;
};

/** A folder in which an app keeps models. */
export type ScannedFolder = {
  /** Which app; `folder` for one that was named. */
  app: string;
  /** Where it is. */
  path: string;
};

/** A model that another app keeps. */
export type FoundModel = {
  /** What an import would call it. */
  name: string;
  /** Bytes of its files. */
  size: number;
  /** Who keeps it; `folder` for one in a folder that was named. */
  app: string;
  /** Its file; the first of them where there are several. */
  path: string;
  /** How many files it has. */
  parts: number;
  /** What it is to us. */
  state: FoundState;
  /** Our model that has the same contents, or may have. */
  model?: string;
  /** What is wrong with it. */
  reason?: string;
  /** Its SHA-256, `sha256:...`, where it is known. */
  digest?: string;
  /** Its architecture; empty where that is not known. */
  family: string;
  /** Its size for people, `3.2B` for instance. */
  parameter_size: string;
  /** Its quantisation, `Q4_K_M` for instance. */
  quantization_level: string;
};

/** What a file is to us. */
export type FoundState =
  /** A model that could be imported. */
  | "new"
  /** Its contents are here. */
  | "here"
  /** It is as long as contents that are here. */
  | "maybe_here"
  /** What makes pictures readable for a model. */
  | "projector"
  /** Changes to the weights of a model. */
  | "adapter"
  /** Nothing that can be read. */
  | "broken";

/** The daemon as a server. Each line of `GET /app/server/events` is one too, whenever something changed. */
export type ServerResponse = {
  /** Its version, `x.y.z`. */
  version: string;
  /** When it started. */
  started_at: Timestamp;
  /** Where it listens, `127.0.0.1:11434` for instance. */
  addresses: string[];
  /** What other programs of this machine are given, `http://127.0.0.1:11434` for instance. */
  url: string;
  /** Whether other machines reach it. */
  lan: boolean;
  /** Whether other machines may pull models from it. */
  share: boolean;
  /** Web origins besides local ones that may use `/api`. */
  origins: string[];
  /** Who asked something, the last one first. */
  clients: ServerClient[];
  /** The last requests, the newest first. Kept in memory only. */
  requests: LoggedRequest[];
};

/** A program that asked something. */
export type ServerClient = {
  /** What it calls itself, without a version; `cairn` is one of our own. */
  name: string;
  /** Where it is, an IP address. */
  address: string;
  /** Whether it is one of our own. */
  own: boolean;
  /** When it asked last. */
  last_seen_at: Timestamp;
  /** How often it asked, as far back as is known. */
  requests: number;
};

/** A request and what came of it. */
export type LoggedRequest = {
  /** Tells it from others; later ones have larger numbers. */
  id: number;
  /** When it came. */
  at: Timestamp;
  /** Who asked, as in [`ServerClient`]. */
  client: string;
  /** The client's IP address. */
  address: string;
  /** `GET`, `POST`, ... */
  method: string;
  /** Without the query. */
  path: string;
  /** The answer's. */
  status: number;
  /** Whether it is still being answered. */
  running: boolean;
  /** How long the answer took, or has taken so far. */
  ms: number;
  /** The model that was asked. */
  model?: string;
  /** From the request to the first piece of the answer, where a model was asked. */
  first_token_ms?: number;
  /** Tokens of the prompt. */
  prompt_tokens?: number;
  /** Of these, tokens that need not be computed. */
  cached_tokens?: number;
  /** Tokens of the answer. */
  answer_tokens?: number;
  /** Tokens of the answer in a second. */
  tokens_per_second?: number;
};

/** The answer to `POST /app/session/ticket`, which our own programs ask with the daemon's token. */
export type TicketResponse = {
  /** `http://127.0.0.1:PORT/ui/#t=...`: good once, for a minute. */
  url: string;
};

/** `POST /app/session`: what stood behind `#t=`. Asked without a token. */
export type SessionRequest = {
  /** The ticket. */
  ticket: string;
};

/** The answer to [`SessionRequest`]. */
export type SessionResponse = {
  /** What this page sends as `Authorization: Bearer` from now on, until the daemon ends. */
  token: string;
};

/** `GET /app/settings`, and the answer to a change. */
export type SettingsResponse = {
  /** Path of `config.toml`, whether or not it is there. */
  path: string;
  /** Why that file cannot be read; then nothing of it holds, and nothing can be changed here. */
  trouble?: string;
  /** Whether some of what is set holds only when the daemon is started anew. */
  restart: boolean;
  /** Every setting, those of a group beside each other. */
  settings: Setting[];
};

/** A setting. */
export type Setting = {
  /** Its name in `config.toml`, `cache.ram` for instance. */
  key: string;
  /** What it belongs to: the part of the key before the dot. */
  group: string;
  /** What its value is. */
  kind: SettingKind;
  /** What is set, or the default; absent where that depends on the machine or is nothing. A secret is never shown. */
  value?: SettingValue;
  /** What holds where nobody sets it; absent where that depends on the machine or is nothing. */
  default?: SettingValue;
  /** The default in words. */
  default_about: string;
  /** Who set it. */
  origin: SettingOrigin;
  /** The variable or the flag that set it; then it cannot be changed here. */
  origin_name?: string;
  /** The variable that sets it. */
  env?: string;
  /** The flag of `cairn serve` that sets it. */
  flag?: string;
  /** The values that a choice has. */
  choices?: string[];
  /**
   * What a number counts or a text is: `tokens`, `bytes_per_second`, `duration` (`5m`, `30d`), `list` (between commas),
   * `paths` (as `PATH` is one), ...
   */
  unit?: string;
  /** When a change holds. */
  applies: SettingApplies;
  /** Whether what is set waits for the daemon to be started anew. */
  restart: boolean;
  /** What it does, in English and one line. */
  about: string;
};

/** What a setting's value is. */
export type SettingKind =
  /** True or false. */
  | "bool"
  /** A whole number. */
  | "number"
  /** A whole number of bytes. */
  | "bytes"
  /** Text. */
  | "text"
  /** A path on the daemon's machine. */
  | "path"
  /** One of several words. */
  | "choice"
  /** Text that is not shown. */
  | "secret";

/** A setting's value: of a bool, of a number and of bytes, or of all others. */
export type SettingValue =
  | boolean
  | number
  | string;

/** Who set a value; the later goes before the earlier. */
export type SettingOrigin =
  /** Nobody. */
  | "default"
  /** `config.toml`. */
  | "file"
  /** The daemon's environment. */
  | "environment"
  /** The daemon's command line. */
  | "flag";

/** When a change holds. */
export type SettingApplies =
  /** At once. */
  | "now"
  /** For models that are loaded from now on. */
  | "next_load"
  /** When the daemon is started anew. */
  | "restart";

/** `PATCH /app/settings`: values by key, `null` for the default. All are written, or none. */
export type SettingsChange = Record<string, SettingValue | null>;

/** Why a change was refused. */
export type SettingsRefused = {
  /** All of it in one line. */
  error: string;
  /** What is wrong, by key; empty where it is nothing of one key. */
  wrong: WrongSetting[];
};

/** A value that cannot be. */
export type WrongSetting = {
  /** Its key. */
  key: string;
  /** Why, in English and one line. */
  reason: string;
};

/** `POST /app/cache/test`: tries a place for kept prefixes without using it. Absent ones are those that are set. */
export type CacheTestRequest = {
  /** A folder on this machine. */
  folder?: string;
  /** A mounted share or a bucket's address. */
  remote?: string;
};

/** What came of a [`CacheTestRequest`]; a place that was not asked for is absent. */
export type CacheTested = {
  /** The folder. */
  folder?: TestedPlace;
  /** The remote place. */
  remote?: TestedPlace;
};

/** A place that was tried. */
export type TestedPlace = {
  /** Its path or address. */
  place: string;
  /** Whether it can be used. */
  works: boolean;
  /** Why it cannot. */
  reason?: string;
  /** Bytes that are free there, where that is known. */
  free_bytes?: number;
  /** How long writing, reading and removing a small file took. */
  round_trip_ms?: number;
};

/** `POST /app/gc`: removes files of the daemon's library that nobody needs. */
export type GcRequest = {
  /** Only tell. */
  dry_run?: boolean;
  /** Remove what is left of downloads by other programs too. */
  partials?: boolean;
};

/** The answer to [`GcRequest`]. */
export type GcResponse = {
  /** Nothing was removed: this is what would be. */
  dry_run: boolean;
  /** Bytes that are free now, or would be. */
  freed_bytes: number;
  /** Files that were removed, or would be. */
  removed: LeftoverFile[];
  /** Files that nobody needs and that stay. */
  kept: LeftoverFile[];
};

/** A file that nobody needs. */
export type LeftoverFile = {
  /** Where it is. */
  path: string;
  /** Bytes of it on the disk. */
  size: number;
  /** What it is. */
  kind: LeftoverKind;
  /** Whether it is younger than an hour, so that a program may be about to use it. */
  young: boolean;
};

/** Kinds of files that nobody needs. */
export type LeftoverKind =
  /** Contents that no model has. */
  | "unreferenced"
  /** What is left of a download. */
  | "partial";

/**
 * `POST /app/verify`: reads the contents of models, and tells which are not what their names say. Answered by
 * [`VerifyLine`]s.
 */
export type VerifyRequest = {
  /** Names of models; none means everything that the libraries hold. */
  models?: string[];
  /** Remove damaged contents of the daemon's own library, so that the next pull fetches them anew. */
  discard?: boolean;
};

/** How far a check has come; the last one is [`VerifyLine::Done`], or an error. */
export type VerifyLine =
  /** Contents are read. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** All have been. */
  | ({ status: "done" } & VerifiedModels);

/** What a check found. */
export type VerifiedModels = {
  /** How many models were looked at. */
  models: number;
  /** How many contents they have together; what several have is counted once. */
  contents: number;
  /** Bytes of them. */
  bytes: number;
  /** Those that are not what they should be. */
  flawed: FlawedContents[];
  /** Manifests that cannot be read. */
  skipped: SkippedFile[];
};

/** Contents that are not what they should be. */
export type FlawedContents = {
  /** Their name, `sha256:...`. */
  digest: string;
  /** What they are for, `model` for instance; empty when no model has them. */
  kind: string;
  /** What is wrong with them. */
  flaw: FlawKind;
  /** The same in words, with the numbers. */
  reason: string;
  /** Models that have them. */
  models: string[];
  /** The library that has them. */
  library: string;
  /** Whether that is the daemon's own, which it may change. */
  own: boolean;
  /** Whether they were removed. */
  discarded: boolean;
};

/** What can be wrong with contents. */
export type FlawKind =
  /** They are not there. */
  | "missing"
  /** There are more or fewer bytes than a manifest says. */
  | "length"
  /** The bytes are others than the name says. */
  | "damaged"
  /** The system does not let the daemon read them. */
  | "unreadable";

/** `run/daemon.json`: how a client finds the daemon of its user. Only that user can read it. */
export type DaemonFile = {
  /** Process id, for people; whether the daemon lives is told by its lock. */
  pid: number;
  /** When it started. */
  started_at: Timestamp;
  /** Where it listens, `127.0.0.1:11434` for instance; the first is the one to use. */
  addresses: string[];
  /** Its version, `x.y.z`. */
  version: string;
  /** What `/app` wants to see as `Authorization: Bearer`. */
  token: string;
};

/** `GET /app/status`. */
export type StatusResponse = {
  version: string;
  pid: number;
  started_at: Timestamp;
  addresses: string[];
  /** Requests that are being answered, this one not counted. */
  active_requests: number;
  /** Models in memory. */
  loaded_models: number;
};

/** `POST /app/open`: makes a model file on this machine known until the daemon ends. */
export type OpenRequest = {
  /** Absolute path of a GGUF file. */
  path: string;
};

/** The answer to [`OpenRequest`]. */
export type OpenResponse = {
  /** The name by which `/api` knows the file from now on. */
  model: string;
  /** Whether the file says how a conversation becomes a prompt. */
  chat_template: boolean;
};

/** `POST /app/import`: makes a model file on this machine a model of the daemon's library. Answered by [`ImportLine`]s. */
export type ImportRequest = {
  /** Absolute path of a GGUF file. */
  path: string;
  /** What the model is to be called; as the file calls itself when absent. */
  name?: string;
  /** Give the file a second name in the store, and make it read-only, in place of copying it. */
  link?: boolean;
  /** Take the file away once the model is there. */
  move?: boolean;
  /** Replace a model that has the name. */
  force?: boolean;
};

/** How far an import has come; the last one is [`ImportLine::Success`], or an error. */
export type ImportLine =
  /** Its digest is computed. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** It is copied, and its digest computed on the way. */
  | ({ status: "copying" } & {
      completed: number;
      total: number;
    })
  /** There is such a model. */
  | ({ status: "success" } & ImportedModel);

/** A model that came from a file. */
export type ImportedModel = {
  /** The name to run it by. */
  model: string;
  /** Bytes of its file. */
  size: number;
  /** How it came into the store. */
  way: ImportWay;
  /** Why it was copied. */
  reason?: string;
  /** Whether the file was made read-only, for a hard link. */
  made_read_only: boolean;
  /** Whether the file is gone, because it was to be moved. */
  moved: boolean;
  /** Why it is still there although it was to be moved. */
  kept_reason?: string;
  /** Whether the file says how a conversation becomes a prompt. */
  chat_template: boolean;
};

/** How a file came into the store. */
export type ImportWay =
  /** Its contents were there. */
  | "present"
  /** It shares its place on the disk with the store's until either is changed. */
  | "reflinked"
  /** The store's is a second name of it. */
  | "linked"
  /** The store's is the file itself. */
  | "moved"
  /** It was copied. */
  | "copied";

/** `POST /app/load`: brings a model into memory, where the next request finds it. */
export type LoadRequest = {
  /** The model's name. */
  model: string;
  /** Load it even when memory looks too small for it. */
  force?: boolean;
  /** How long it stays; the daemon's setting when absent. */
  keep_alive?: KeepAlive;
};

/** The stable name of an error that a client can see. The documentation of each names its parameters. */
export type ErrorCode =
  /** The request is malformed or contradicts itself. Parameters: reason. */
  | "invalid_request"
  /** The request has no body. */
  | "missing_body"
  /** The request's body exceeds the limit. */
  | "body_too_large"
  /** The daemon token is missing or wrong. */
  | "unauthorized"
  /** The one-time address of the interface was used before or is too old. */
  | "session_expired"
  /** This client may not do that. Parameters: reason. */
  | "forbidden"
  /** There is no such entry. Parameters: reason. */
  | "not_found"
  /** The daemon failed unexpectedly. Parameters: reason. */
  | "internal"
  /** Too many requests wait already. */
  | "server_busy"
  /** This version cannot do that. Parameters: feature. */
  | "unsupported"
  /** The engine could not start. Parameters: reason. */
  | "start_failed"
  /** A setting has an invalid value; `wrong` in the body lists all of them. Parameters: reason. */
  | "setting_invalid"
  /** `config.toml` cannot be read. Parameters: path, reason. */
  | "config_unreadable"
  /** `config.toml` cannot be written. Parameters: reason. */
  | "config_unwritable"
  /** The text is not a model name. Parameters: name. */
  | "model_name_invalid"
  /** There is no model of that name. Parameters: model. */
  | "model_not_found"
  /** The model has no GGUF file. Parameters: model. */
  | "model_has_no_file"
  /** The file cannot be read, or is not a model. Parameters: path, reason. */
  | "model_file_unreadable"
  /** The model cannot be loaded. Parameters: reason. */
  | "model_unloadable"
  /** The model needs more memory than is free. Parameters: need_bytes, free_bytes. */
  | "model_too_large"
  /** The name belongs to the built-in model. Parameters: model. */
  | "model_built_in"
  /** Another model has that name. Parameters: model. */
  | "model_name_taken"
  /** A library that Cairn only reads has a model of that name. Parameters: model, path. */
  | "model_in_other_library"
  /** The model is in a library that Cairn only reads. Parameters: model, path. */
  | "library_read_only"
  /** A library cannot be read. Parameters: reason. */
  | "library_unreadable"
  /** The library cannot be written. Parameters: reason. */
  | "library_write_failed"
  /** The disk has too little free space. Parameters: need_bytes, free_bytes, path. */
  | "disk_full"
  /** A manifest cannot be read, so nothing was removed. Parameters: path. */
  | "manifest_unreadable"
  /** The text is not a digest. Parameters: reason. */
  | "digest_invalid"
  /** The contents have another digest. Parameters: expected, found. */
  | "digest_mismatch"
  /** The blob was not uploaded. Parameters: digest. */
  | "blob_not_found"
  /** The model is a file outside of the library. Parameters: model. */
  | "file_outside_library"
  /** The file is in Cairn's own library. Parameters: path. */
  | "file_in_library"
  /** The file belongs to a library that Cairn only reads. Parameters: path, library. */
  | "file_in_other_library"
  /** The file cannot be linked or moved; a copy is possible. Parameters: reason. */
  | "import_refused"
  /** The request to create a model is incomplete or contradicts itself. Parameters: reason. */
  | "create_request_invalid"
  /** The weights cannot be quantised. Parameters: reason. */
  | "quantization_failed"
  /** The template is invalid. Parameters: reason. */
  | "template_invalid"
  /** The registry has no such model. Parameters: host, model. */
  | "registry_model_not_found"
  /** The registry would be asked over plain HTTP. Parameters: host. */
  | "registry_insecure"
  /** The text is not an address of a registry. Parameters: reason. */
  | "registry_address_invalid"
  /** The registry refuses access to the model. Parameters: reason. */
  | "registry_refused"
  /** The registry's certificate is not trusted. Parameters: host, reason. */
  | "registry_untrusted"
  /** The registry cannot be reached. Parameters: reason. */
  | "registry_unreachable"
  /** The registry asks to wait. Parameters: host, seconds. */
  | "registry_busy"
  /** The registry publishes the model in a format that Cairn cannot run. Parameters: model. */
  | "model_format_unsupported"
  /** The registry's manifest is not one of a model. Parameters: host, model, reason. */
  | "manifest_invalid"
  /** The name belongs to a model that was made on this machine. Parameters: model. */
  | "model_made_here"
  /** The network settings prevent connections. Parameters: reason. */
  | "proxy_invalid"
  /** The contents could not be downloaded. Parameters: reason. */
  | "download_failed"
  /** There is no such download. Parameters: download. */
  | "download_not_found"
  /** The download is complete. Parameters: model. */
  | "download_complete"
  /** The download was cancelled; what was downloaded is kept. */
  | "download_cancelled"
  /** The daemon is shutting down; the download will resume. */
  | "download_interrupted"
  /** The download was discarded. */
  | "download_discarded"
  /** The list of downloads is full. Parameters: limit. */
  | "too_many_downloads"
  /** The registry does not accept pushes from this user. Parameters: host, reason. */
  | "push_unauthorized"
  /** The model could not be pushed. Parameters: reason. */
  | "push_failed"
  /** Another machine may not have this fetched. Parameters: source, reason. */
  | "remote_fetch_forbidden"
  /** The search query is too long. Parameters: limit. */
  | "query_too_long"
  /** The user name is invalid. */
  | "login_invalid"
  /** The registry refuses the user name or password. Parameters: reason. */
  | "login_refused"
  /** The host is not a registry. Parameters: host. */
  | "login_not_a_registry"
  /** The registry cannot be reached; nothing was stored. Parameters: reason. */
  | "login_unreachable"
  /** The password cannot be stored or read. Parameters: reason. */
  | "login_store_failed"
  /** The text is not a join code. */
  | "join_code_invalid"
  /** The mirror was not joined. Parameters: reason. */
  | "join_failed"
  /** The text is not a key. Parameters: reason. */
  | "peer_key_invalid"
  /** The key or the list of trusted peers cannot be used. Parameters: reason. */
  | "trust_store_failed"
  /** The local network cannot be searched. Parameters: reason. */
  | "lan_failed"
  /** The cache is off. */
  | "cache_off"
  /** There is no cached context of that id. Parameters: context. */
  | "context_not_found"
  /** Several cached contexts have ids with that prefix. Parameters: context. */
  | "context_ambiguous"
  /** Pinned contexts may take a quarter of a tier. */
  | "pin_quota_exceeded"
  /** The environment overrides this limit. Parameters: variable. */
  | "cache_limit_overridden"
  /** The limit is out of range. Parameters: reason. */
  | "cache_limit_invalid"
  /** The folder cannot be used for the cache. Parameters: path, reason. */
  | "cache_folder_invalid"
  /** The cache folder cannot be read. Parameters: reason. */
  | "cache_folder_unreadable"
  /** The model cannot think. Parameters: model. */
  | "thinking_unsupported"
  /** An option has an invalid value. Parameters: reason. */
  | "option_invalid"
  /** The prompt does not fit into the context. Parameters: prompt_tokens, context_tokens. */
  | "prompt_too_long"
  /** The context is too small for any part of the prompt. Parameters: prompt_tokens, context_tokens, min_tokens. */
  | "context_too_small"
  /** The prompt cannot be rendered. Parameters: reason. */
  | "prompt_failed"
  /** The model failed while it computed. Parameters: reason. */
  | "generation_failed"
  /** The engine stopped before the answer was complete. */
  | "generation_interrupted"
  /** There is no such chat. Parameters: chat. */
  | "chat_not_found"
  /** The chat has no such message. Parameters: message. */
  | "message_not_found"
  /** There is no such preset. Parameters: preset. */
  | "preset_not_found"
  /** An answer is being computed in this chat. */
  | "chat_answering"
  /** No answer is being computed in this chat. */
  | "chat_not_answering"
  /** The chat has no model. */
  | "chat_without_model"
  /** The chat is in the trash. */
  | "chat_in_trash"
  /** The message is empty. */
  | "message_empty"
  /** The message cannot be answered or continued. Parameters: message. */
  | "message_not_answerable"
  /** The chats cannot be imported. Parameters: reason. */
  | "chat_import_failed"
  /** The chats cannot be read or written. Parameters: reason. */
  | "chats_unavailable"
  /** A newer version of Cairn wrote the chats. Parameters: path. */
  | "chats_newer_version";

/** The body of an error response, and the last line of a stream that failed. */
export type ErrorBody = {
  /** What went wrong, in English. */
  error: string;
  /** The stable name of the error; absent from other servers. */
  code?: ErrorCode;
  /** The facts of the error by name, as [`ErrorCode`] documents them. */
  params?: Record<string, string>;
};

/** How long a model stays loaded after its last request. */
export type KeepAlive = string | number;

/** What is asked for. Fields that this version does not know how to honour are read too, so that it can say so. */
export type ChatRequest = {
  model?: string;
  messages?: Message[];
  /** One JSON object per piece of the answer; on when absent. */
  stream?: boolean;
  format?: unknown;
  keep_alive?: KeepAlive;
  tools?: unknown[];
  options?: Record<string, unknown>;
  think?: Think;
  truncate?: boolean;
  shift?: boolean;
  logprobs?: boolean;
  top_logprobs?: number;
  /** Whether only the prompt's text is wanted, and no answer. */
  _debug_render_only?: boolean;
};

/** One message of a conversation, as clients send it. */
export type Message = {
  role: string;
  content: string;
  thinking?: string;
  images?: unknown[];
  tool_calls?: unknown[];
  tool_name?: string;
  tool_call_id?: string;
};

/** A piece of the answer, or the whole of it. */
export type ChatChunk = {
  model: string;
  created_at: Timestamp;
  message: ReplyMessage;
  done: boolean;
  done_reason?: DoneReason;
  logprobs?: Logprob[];
  /** Ours: what did not fit into the context. */
  truncated?: Truncated;
  _debug_info?: DebugInfo;
} & Metrics;

/** The message inside a [`ChatChunk`]. */
export type ReplyMessage = {
  role: string;
  content: string;
  thinking?: string;
};

/** Which model, and its second name. */
export type CopyRequest = {
  /** The model's name. */
  source?: string;
  /** The name that it is to have too. */
  destination?: string;
};

/** What is to be made. Fields that this version does not know how to honour are read too, so that it can say so. */
export type CreateRequest = {
  model?: string;
  /** The same, as older clients call it. */
  name?: string;
  from?: string;
  /** Names and digests of contents that were sent. */
  files?: Record<string, string>;
  draft_files?: Record<string, unknown>;
  adapters?: Record<string, string>;
  template?: string;
  license?: Licenses;
  system?: string;
  parameters?: Record<string, unknown>;
  messages?: Message[];
  renderer?: string;
  parser?: string;
  requires?: string;
  quantize?: string;
  quantization?: string;
  draft_quantize?: string;
  remote_host?: string;
  /** What the model's description is to say in place of what its file says. */
  info?: Record<string, unknown>;
  /** Cairn's own: whether the registry of a model that is not here may be asked over plain http. */
  insecure?: boolean;
  /** One JSON object per step; on when absent. */
  stream?: boolean;
};

/** One licence text, or several. */
export type Licenses =
  /** One. */
  | string
  /** Several. */
  | string[];

/** A step of something that takes a while. */
export type ProgressLine = {
  /** Which step; the last one is `success`. */
  status: string;
  /** What the step is about; while a model is quantised, [`ProgressLine::QUANTISED`]. */
  digest?: string;
  /** How many bytes there are. */
  total?: number;
  /** How many of them are done. */
  completed?: number;
};

/** Which model. */
export type DeleteRequest = {
  /** The model's name. */
  model?: string;
  /** The same, as older clients call it. */
  name?: string;
};

/** What is asked for. Fields that this version does not know how to honour are read too, so that it can say so. */
export type GenerateRequest = {
  model?: string;
  prompt?: string;
  suffix?: string;
  system?: string;
  template?: string;
  /** Tokens of an earlier answer, to go on from. */
  context?: number[];
  /** One JSON object per piece of the answer; on when absent. */
  stream?: boolean;
  raw?: boolean;
  format?: unknown;
  keep_alive?: KeepAlive;
  images?: unknown[];
  options?: Record<string, unknown>;
  think?: Think;
  truncate?: boolean;
  shift?: boolean;
  logprobs?: boolean;
  top_logprobs?: number;
  /** Whether only the prompt's text is wanted, and no answer. */
  _debug_render_only?: boolean;
};

/** A piece of the answer, or the whole of it. */
export type GenerateChunk = {
  model: string;
  created_at: Timestamp;
  response: string;
  thinking?: string;
  done: boolean;
  done_reason?: DoneReason;
  /** Tokens of the prompt and of the answer, to be sent back with the next request. */
  context?: number[];
  logprobs?: Logprob[];
  /** Ours: what did not fit into the context. */
  truncated?: Truncated;
  _debug_info?: DebugInfo;
} & Metrics;

/** A token of an answer, with its natural logarithm of probability. */
export type Logprob = {
  /** The likeliest tokens at its place, the likeliest first; absent unless they were asked for. */
  top_logprobs?: TokenLogprob[];
} & TokenLogprob;

/** A token and its natural logarithm of probability. */
export type TokenLogprob = {
  /** Its text; what is no character by itself is replaced by U+FFFD. */
  token: string;
  /** The logarithm of its probability, before temperature and filters. */
  logprob: number;
  /** The bytes of its text, which may end within a character. */
  bytes?: number[];
};

/**
 * Counts and times of one answer, on its last chunk.
 *
 * `prompt_eval_count` is the whole prompt, as clients expect; `prompt_eval_duration` covers only the tokens that had to
 * be computed, which are `prompt_eval_count - cached_tokens`.
 */
export type Metrics = {
  total_duration?: number;
  load_duration?: number;
  prompt_eval_count?: number;
  prompt_eval_duration?: number;
  eval_count?: number;
  eval_duration?: number;
  /** Prompt tokens that were found computed already. Ours: Ollama has no such field. */
  cached_tokens?: number;
  /** Of these, the tokens that had left memory's pages and came back from RAM. Ours, as all that follows. */
  ram_tokens?: number;
  /** From this machine's disk. */
  ssd_tokens?: number;
  /** From the remote tier. */
  remote_tokens?: number;
  /** Bringing them back; it is no part of `prompt_eval_duration`. */
  restore_duration?: number;
  /** What computing them would have taken instead, by what computing has taken lately. */
  recompute_duration?: number;
};

/** All loaded models, the one that expires last first. */
export type PsResponse = {
  /** One row each. */
  models: PsModel[];
};

/** One loaded model. */
export type PsModel = {
  name: string;
  model: string;
  size: number;
  digest: string;
  details: Details;
  expires_at: Timestamp;
  size_vram: number;
  context_length: number;
};

/** Which model. `username` and `password`, which older clients send, mean nothing. */
export type PullRequest = {
  /** The model's name. */
  model?: string;
  /** The same, as older clients call it. */
  name?: string;
  /** Whether the registry may be asked over plain `http`. */
  insecure?: boolean;
  /** One JSON object per step; on when absent. */
  stream?: boolean;
  /** Addresses of mirrors to take contents from before the registry. Our own clients send it. */
  sources?: string[];
};

/**
 * A step of a pull or a push, or how far one of the model's contents has come. The fields after `completed` are our own;
 * Ollama's clients pass over them.
 */
export type PullLine = {
  /** Which step; the last one is `success`. */
  status: string;
  /** The contents that are fetched, `sha256:...`. */
  digest?: string;
  /** How many bytes they have. */
  total?: number;
  /** How many of them are here. */
  completed?: number;
  /** How fast they come. */
  bytes_per_second?: number;
  /** The host that they come from. */
  source?: string;
  /** What went wrong and was got round, for people. */
  trouble?: string;
};

/** Which model. `username` and `password`, which older clients send, mean nothing. */
export type PushRequest = {
  /** The model's name. */
  model?: string;
  /** The same, as older clients call it. */
  name?: string;
  /** Whether the registry may be asked over plain `http`. */
  insecure?: boolean;
  /** One JSON object per step; on when absent. */
  stream?: boolean;
};

/** Which model, and how much about it. */
export type ShowRequest = {
  /** The model's name. */
  model?: string;
  /** The same, as older clients call it. */
  name?: string;
  /** With the contents of arrays, vocabularies above all. */
  verbose?: boolean;
};

/** All about one model. Texts that there are none of are left out. */
export type ShowResponse = {
  license?: string;
  modelfile?: string;
  parameters?: string;
  template?: string;
  /** The template's language, and why it is this one where there are more. Ours: Ollama has no such field. */
  template_reason?: string;
  system?: string;
  details: Details;
  /** Messages that precede every conversation. */
  messages?: Message[];
  model_info: Record<string, unknown>;
  tensors?: ShowTensor[];
  capabilities?: string[];
  modified_at: Timestamp;
  /** Where the model comes from, when it is not from a library. Ours: Ollama has no such field. */
  origin?: string;
};

/** One tensor of a model's file. */
export type ShowTensor = {
  /** Its name. */
  name: string;
  /** Its type, `Q4_K` for instance. */
  type: string;
  /** Its dimensions, the fastest one first, as GGUF has them. */
  shape: number[];
};

/** All models, the newest first. */
export type TagsResponse = {
  /** One row each. */
  models: TagsModel[];
};

/** One model of the list. */
export type TagsModel = {
  name: string;
  model: string;
  modified_at: Timestamp;
  size: number;
  /** Lower-case hex, without `sha256:`. */
  digest: string;
  details: Details;
  capabilities?: string[];
  /** Where the model comes from, when it is not from a library. Ours: Ollama has no such field. */
  origin?: string;
};

/** What a model is, in short. */
export type Details = {
  parent_model: string;
  format: string;
  family: string;
  families: string[] | null;
  parameter_size: string;
  quantization_level: string;
  context_length?: number;
  embedding_length?: number;
};

/** What was left out, on an answer's last chunk. */
export type Truncated = {
  /** When the last of it went. */
  reason: Overflow;
  /** Oldest turns of the conversation: each a question, with all that was said before the next one. */
  turns: number;
  /** Messages in these turns. */
  messages: number;
  /** All tokens that the model no longer saw. */
  tokens: number;
  /** Those of them that went out of the middle of what was kept. */
  cut_tokens?: number;
  /** Tokens that the context holds. */
  context_tokens: number;
};

/** When a context was too small. */
export type Overflow =
  /** Before the answer. */
  | "prompt_too_long"
  /** While the answer was being computed. */
  | "context_full";

/** `GET /api/version`. */
export type VersionResponse = {
  /** `x.y.z` */
  version: string;
};

/** Why an answer ended, as `done_reason`. */
export type DoneReason =
  /** The model said that it is done, or a stop string came. */
  | "stop"
  /** The limit of tokens, or of the context, was reached. */
  | "length"
  /** Nothing was asked: the model was loaded. */
  | "load"
  /** Nothing was asked, and nothing is to be kept: the model was unloaded. */
  | "unload";

/** What a request with `_debug_render_only` is answered with. */
export type DebugInfo = {
  /** The prompt, as the model would read it. */
  rendered_template: string;
};

/** What a request may set, `None` where nothing did. */
export type Options = {
  num_keep?: number;
  seed?: number;
  num_predict?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  typical_p?: number;
  repeat_last_n?: number;
  temperature?: number;
  repeat_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  stop?: string[];
  num_ctx?: number;
  num_batch?: number;
  num_gpu?: number;
  main_gpu?: number;
  use_mmap?: boolean;
  num_thread?: number;
  draft_num_predict?: number;
  kv_cache_type?: string;
  context_shift?: string;
};

/** The `think` field of a request. */
export type Think = boolean | "low" | "medium" | "high" | "max";

/** A moment. Years outside 0..=9999 cannot be written in RFC 3339 and are clamped to its ends. */
export type Timestamp = string;
