// Requests and responses of the daemon. Generated from src-tauri/crates/wire by `cargo xtask gen`: do not edit.
/* eslint-disable */

/** A tier. */
export type TierName =
  /** Memory of this machine. */
  | "ram"
  /** A folder on this machine's disk. */
  | "ssd"
  /** A shared folder or a bucket. */
  | "remote";

/** `GET /app/cache`, and each line of `GET /app/cache/events`, which sends one after each change. */
export type CacheResponse = {
  /** The tiers, fastest first; empty if the cache is off. */
  tiers: CacheTier[];
  /** Path of the SSD tier. */
  folder?: string;
  /** Path or address of the remote tier. */
  remote?: string;
  /** Place of the encryption key, as a text; absent if no files are encrypted. */
  key?: string;
  /** Prompt tokens since the daemon started. */
  prompt_tokens: number;
  /** Prompt tokens that were found in pages or tiers. */
  cached_tokens: number;
  /** Estimated time that restores saved, since the start of the day (UTC) or of the daemon. */
  saved_today_ms: number;
  /** Prompt tokens that were computed although they were looked up, by reason. */
  recomputed?: CacheRecomputed[];
  /** Prompt tokens of the last 24 hours, oldest first; hours without prompts are left out. */
  hours?: CacheHour[];
  /** Restores that ended early because a chunk was damaged, missing or late. */
  cut_short: number;
  /** Chunks that were not written because a queue or tier was full, or the daily limit was reached. */
  dropped: number;
};

/** Prompt tokens that were computed for one reason. */
export type CacheRecomputed = {
  /** `miss`: no tier has them; `cheaper`: faster than a restore; `deadline`, `corrupt`, `incompatible`, `no_pages`. */
  reason: string;
  /** The number of tokens. */
  tokens: number;
};

/** Prompt tokens of an hour, by the place of their rows. */
export type CacheHour = {
  /** Start of the hour. */
  at: Timestamp;
  /** In the memory of the loaded model. */
  memory_tokens: number;
  /** Restored from the RAM tier. */
  ram_tokens: number;
  /** Restored from the SSD tier. */
  ssd_tokens: number;
  /** Restored from the remote tier. */
  remote_tokens: number;
  /** Computed. */
  computed_tokens: number;
};

/** Status of a tier, and its counters since the daemon started. */
export type CacheTier = {
  /** The tier. */
  tier: TierName;
  /** `up`, `scanning`, `read_only`, `suspect` or `away`. */
  health: string;
  /** Why the tier is not `up`. */
  reason?: string;
  /** Budget in bytes. */
  budget_bytes: number;
  /** Stored bytes. */
  used_bytes: number;
  /** Stored chunks. */
  chunks: number;
  /** Bytes in the write queue. */
  queued_bytes: number;
  /** Number of deleted or evicted chunks that are queued for removal, for example because the tier is not reachable. */
  removing_chunks: number;
  /** Bytes written. */
  stored_bytes: number;
  /** Bytes restored. */
  restored_bytes: number;
  /** Restored tokens. */
  hit_tokens: number;
  /** Evicted bytes. */
  evicted_bytes: number;
  /** Bytes written today (UTC). */
  written_today_bytes: number;
  /** Recent read bandwidth. */
  read_bytes_per_second?: number;
  /** Damaged chunks. */
  damaged: number;
};

/** `GET /app/cache/contexts`. */
export type CacheContexts = {
  /** Contexts, most recently used first. */
  contexts: CacheContext[];
};

/** A cached context: a conversation or another prompt. */
export type CacheContext = {
  /** Id, stable while the context is cached. */
  id: string;
  /** Owners, as clients sent them in `X-Cairn-Owner`. */
  owners: string[];
  /** Name of the model, if it is available. */
  model?: string;
  /** Length in tokens. */
  tokens: number;
  /** Bytes of the rows; contexts may share rows. */
  bytes: number;
  /** Bytes in the RAM tier. */
  ram_bytes: number;
  /** Bytes in the SSD tier. */
  ssd_bytes: number;
  /** Bytes in the remote tier. */
  remote_bytes: number;
  /** Number of hits. */
  hits: number;
  /** Time of the last use. */
  last_used_at: Timestamp;
  /** Whether the context is pinned. */
  pinned: boolean;
};

/**
 * `POST /app/cache/pin`, `unpin` and `drop`. The response is [`CacheContexts`] for pins, and [`CacheDeleted`] for
 * `drop`.
 */
export type CacheWhich = {
  /** An id, or at least its first four characters. */
  context: string;
};

/** `POST /app/cache/prefetch` and `DELETE /app/cache/owner`. */
export type CacheOwner = {
  /** The owner, as in `X-Cairn-Owner`. */
  owner: string;
};

/** Response of `POST /app/cache/prefetch`. */
export type CachePrefetched = {
  /** Number of the owner's contexts. */
  contexts: number;
};

/** `POST /app/cache/clear`. The response is [`CacheDeleted`], after all files were removed. */
export type CacheClear = {
  /** The tier; if absent, all tiers and the pages of loaded models. */
  tier?: TierName;
};

/** Result of a deletion. */
export type CacheDeleted = {
  /** Deleted chunks. */
  chunks: number;
  /** Files of these chunks that could not be removed yet. The removal is retried. */
  left: number;
};

/** `GET /app/cache/limits`: limits of the tiers. */
export type CacheLimits = {
  /** Bytes of RAM. */
  ram_bytes: CacheLimit<number>;
  /** Folder of the SSD tier. */
  folder: CacheLimit<string>;
  /** Bytes of the folder. */
  folder_bytes: CacheLimit<number>;
  /** Whether a change takes effect only at the next start of the daemon. */
  at_next_start: boolean;
};

/** A limit. */
export type CacheLimit<T> = {
  /** The limit; absent if the tier does not exist. */
  value: T | null;
  /** The environment variable that overrides the limit. Then it cannot be changed here. */
  variable?: string;
};

/** `PUT /app/cache/limits`: changes all given limits or none. The response is [`CacheLimits`]. */
export type CacheLimitsChange = {
  /** Bytes of RAM; 0 for none. */
  ram_bytes?: number;
  /** An absolute path. */
  folder?: string;
  /** Bytes of the folder. */
  folder_bytes?: number;
};

/** `POST /app/cache/trace`: looks up a prompt. The response is a [`CacheTrace`]. */
export type CacheTraceRequest = {
  /** The model's name. */
  model: string;
  /** The conversation, or one message of a user. */
  messages: Message[];
  /** Use the texts as the prompt, without the model's template. */
  raw?: boolean;
  /** Options of the request; `num_ctx` sets the context size of the load. */
  options?: Record<string, unknown>;
};

/** Cached part of a prompt, and the reason of the miss. */
export type CacheTrace = {
  /** Tokens of the whole prompt, even if it is longer than the context. */
  tokens: number;
  /** Tokens in the pages of the loaded model. */
  memory_tokens: number;
  /** Tokens in the tiers. */
  kept_tokens: number;
  /** Tokens by tier. */
  tiers: TierTokens[];
  /**
   * `whole`, `changed`, `ends`, `never`, `evicted`, `expired`, `deleted`, `lost`, `other_arithmetic`, `rounded`,
   * `suspect`, `away` or `not_kept`.
   */
  reason: string;
  /** Position of the first different token. */
  changed_at?: number;
  /** Cached text at this position. */
  kept_text?: string;
  /** Text of the prompt at this position. */
  asked_text?: string;
};

/** Tokens in one tier. */
export type TierTokens = {
  /** The tier. */
  tier: TierName;
  /** Number of tokens. */
  tokens: number;
};

/** `GET /app/cache/fsck`: full check of the SSD tier. */
export type CacheFsck = {
  /** The folder. */
  folder: string;
  /** Intact chunks. */
  whole: number;
  /** Bytes of these chunks. */
  whole_bytes: number;
  /** Damaged files. */
  damaged: DamagedChunk[];
  /** Unreadable files. */
  unread: DamagedChunk[];
  /** Intact chunks that cannot be used, because a chunk before them is missing. */
  orphans: number;
  /** Bytes of these chunks. */
  orphan_bytes: number;
  /** Damaged files that earlier runs moved to quarantine. */
  aside: number;
  /** Files of other installations, which are not changed. */
  foreign: number;
  /** Whether damaged files and orphans were removed. */
  fixed: boolean;
};

/** A damaged or unreadable file. */
export type DamagedChunk = {
  /** Path of the file. */
  path: string;
  /** The reason. */
  reason: string;
};

/** Stored part of a chat's list row. */
export type ChatRow = {
  /** Id of the chat. */
  id: string;
  /** Title; empty before the first message. */
  title: string;
  /** Model of the next answer. */
  model?: string;
  /** Folder of the chat. */
  folder?: string;
  /** Whether the chat is pinned to the top. */
  pinned: boolean;
  /** Time of creation. */
  created_at: Timestamp;
  /** Time of the last message. */
  updated_at: Timestamp;
  /** Time of the move to the trash. */
  deleted_at?: Timestamp;
  /** Number of messages in all branches. */
  message_count: number;
};

/** A stored chat without its messages. */
export type StoredChat = {
  /** System message; if absent, the model's own. */
  system?: string;
  /** Options of all requests, as in `/api/chat`. */
  options: Record<string, unknown>;
  /** Whether the model thinks first; if absent, the model's default. */
  think?: Think;
  /** The preset of the chat. */
  preset?: string;
  /** Id of the collection of documents in which the daemon searches for each question. */
  collection?: string;
  /** Last message of the selected branch. */
  head?: string;
} & ChatRow;

/** Runtime status of a chat, which is not stored. */
export type ChatStatus = {
  /** Fastest location of the cached rows. */
  warmth: Warmth;
  /** Whether an answer is in progress. */
  answering: boolean;
  /** Whether the chat is only in memory until the daemon stops. */
  temporary: boolean;
};

/** Fastest location of a chat's cached rows. Variants are ordered from slow to fast. */
export type Warmth =
  /** Not cached. */
  | "cold"
  /** In the SSD tier or the remote tier. */
  | "disk"
  /** In the RAM tier. */
  | "warm"
  /** In the pages of a loaded model. */
  | "hot";

/** List row of a chat. */
export type ChatSummary = ChatRow & ChatStatus;

/** `GET /app/chats/{id}`. */
export type Chat = StoredChat & ChatStatus;

/** `POST /app/chats`. The response is a [`Chat`]. */
export type NewChatRequest = {
  /** Title; if absent or blank, it is generated. */
  title?: string;
  /** Model of the answers. */
  model?: string;
  /** Folder of the chat. */
  folder?: string;
  /** System message. */
  system?: string;
  /** Options of every request. */
  options?: Record<string, unknown>;
  /** Whether the model thinks first. */
  think?: Think;
  /** A preset, which sets absent fields. */
  preset?: string;
  /** Id of the collection of documents in which the daemon searches for each question. */
  collection?: string;
  /** Whether the chat is in memory only, and is never written to disk. */
  temporary?: boolean;
};

/** `PATCH /app/chats/{id}`. Absent fields stay unchanged; `null` removes an optional value. The response is a [`Chat`]. */
export type ChatChange = {
  /** Title; a blank one is generated again. */
  title?: string;
  /** Model of the answers. */
  model?: string | null;
  /** The folder. */
  folder?: string | null;
  /** Whether the chat is pinned to the top. */
  pinned?: boolean;
  /** System message. */
  system?: string | null;
  /** Options of all requests, which replace the old ones. */
  options?: Record<string, unknown>;
  /** Whether the model thinks first. */
  think?: Think | null;
  /** The preset of the chat. */
  preset?: string | null;
  /** Id of the collection of documents in which the daemon searches for each question. */
  collection?: string | null;
};

/** `GET /app/presets`. */
export type PresetsResponse = {
  /** Presets, by name. */
  presets: Preset[];
};

/** `GET|PUT|DELETE /app/presets/{name}`: parameters of new chats. */
export type Preset = {
  /** Name; the name in the path takes precedence. */
  name: string;
  /** The model. */
  model?: string;
  /** System message. */
  system?: string;
  /** Options of all requests. */
  options: Record<string, unknown>;
  /** Whether the model thinks first. */
  think?: Think;
};

/** `GET /app/chats/export`, and for one chat `GET /app/chats/{id}/export?format=json`. */
export type ChatsExport = {
  /** Name of the format: `cairn-chats`. */
  format: string;
  /** Version of the format; 1. */
  version: number;
  /** Time of the export. */
  exported_at: Timestamp;
  /** Chats, last changed first. */
  chats: ExportedChat[];
};

/** A chat with all its branches. Imports also accept exports of older versions. */
export type ExportedChat = {
  /** Messages; a parent precedes its children. */
  messages: ChatMessage[];
} & StoredChat;

/** `GET /app/chats/import`: chats of other apps on this machine. */
export type ChatsToImport = {
  /** The database of Ollama's app; absent if there is none at the usual path. */
  ollama_db?: string;
};

/** `POST /app/chats/import`: exactly one source. The response is [`ChatsImported`]. */
export type ChatsImportRequest = {
  /** An export. */
  export?: ChatsExport;
  /** Absolute path of the database of Ollama's app, which is only read. */
  ollama_db?: string;
};

/** Result of an import, which is one transaction. */
export type ChatsImported = {
  /** Number of new chats. */
  chats: number;
  /** Number of their messages. */
  messages: number;
  /** Number of chats that existed already. */
  present: number;
  /** Chats that could not be imported. */
  skipped: SkippedChat[];
};

/** A chat that could not be imported. */
export type SkippedChat = {
  /** Title or id. */
  title: string;
  /** The reason. */
  reason: string;
};

/** A message of a chat. */
export type ChatMessage = {
  /** Id of the message. */
  id: string;
  /** The parent message; absent for a first message. */
  parent?: string;
  /** `user` or `assistant`; imported messages may have other roles. */
  role: string;
  /** Text; Markdown if a model wrote it. */
  content: string;
  /** Thinking before the answer. */
  thinking?: string;
  /** Duration of the thinking. */
  thinking_ms?: number;
  /** Attached images, in base64. */
  images?: string[];
  /** Attached text files. */
  files?: AttachedFile[];
  /** Passages of documents for a question; absent if its chat has no collection. */
  sources?: Sources;
  /** Time of creation. */
  created_at: Timestamp;
  /** The model that wrote the message. */
  model?: string;
  /** State of the message. */
  state: MessageState;
  /** Whether the user wrote this version of the answer. */
  edited?: boolean;
  /** Why the answer failed. */
  error?: ErrorBody;
  /** Usage of the answer. */
  usage?: Usage;
  /** Steps before the text: what the model wrote before it called tools, and the calls. */
  steps?: ToolStep[];
  /** Why tools were left out of the answer. */
  tools_left_out?: ToolsLeftOut[];
  /** Ids of all messages with the same parent, including this one, in the order of creation; absent in exports. */
  versions?: string[];
};

/** State of a message. */
export type MessageState =
  /** Complete. */
  | "complete"
  /** In progress. */
  | "answering"
  /** Stopped by the user. */
  | "stopped"
  /** The daemon stopped before the answer was complete. */
  | "interrupted"
  /** The answer failed. */
  | "failed";

/** A text file of a message. It precedes the message's text in the prompt. */
export type AttachedFile = {
  /** Name without folders. */
  name: string;
  /** Contents. */
  text: string;
};

/**
 * `GET /app/chats/{id}/messages?leaf=&before=&limit=`: the last `limit` messages before `before`, on the path to
 * `leaf`.
 */
export type MessagesResponse = {
  /** Messages in order. */
  messages: ChatMessage[];
  /** Number of messages on the path to `leaf`. */
  total: number;
  /** Number of messages before the first one of this response. */
  before: number;
};

/** `POST /app/chats/{id}/messages`: sends a message. The response is a stream of [`ChatLine`]s. */
export type SendRequest = {
  /** The parent message; if absent, the chat's head; `null` for a new first message. */
  parent?: string | null;
  /** Text of the message. */
  content?: string;
  /** Images, in base64. */
  images?: string[];
  /** Text files. */
  files?: AttachedFile[];
  /** New model of the chat; if absent, the current one. */
  model?: string;
  /** Whether the model thinks first, for this answer. */
  think?: Think;
  /** Options for this answer, which override the chat's. */
  options?: Record<string, unknown>;
  /** A second model, which answers after the first one, to compare both. It does not become the chat's model. */
  compare?: string;
  /** Whether tools are offered; on if absent. */
  tools?: boolean;
};

/** `POST /app/chats/{id}/answer`: exactly one of `message` and `continue`. The response is a stream of [`ChatLine`]s. */
export type AnswerRequest = {
  /** The user's message to answer again. */
  message?: string;
  /** The answer to continue. */
  continue?: string;
  /** New model of the chat; if absent, the current one. */
  model?: string;
  /** Whether the model thinks first, for this answer. */
  think?: Think;
  /** Options for this answer, which override the chat's. */
  options?: Record<string, unknown>;
  /** Whether tools are offered; on if absent. */
  tools?: boolean;
};

/**
 * `PUT /app/chats/{id}/head`: selects a branch. The response is a [`super::Chat`], whose head is the last message of
 * this branch.
 */
export type HeadRequest = {
  /** Any message of the branch. */
  message: string;
};

/** `POST /app/chats/{id}/edit`: adds an edited version of an answer and shows it. The response is a [`super::Chat`]. */
export type EditRequest = {
  /** The answer. */
  message: string;
  /** Its new text. */
  content: string;
};

/** `POST /app/chats/{id}/fork`: copies the messages up to one into a new chat. The response is a [`super::Chat`]. */
export type ForkRequest = {
  /** The last message to copy. */
  message: string;
  /** Title of the new chat; if absent, that of the old one. */
  title?: string;
};

/**
 * Response of `DELETE /app/chats/{id}/messages/{message}`, which deletes a message and all that follow it. The same
 * value is the body of `POST /app/chats/{id}/messages/restore`, which adds them again with new ids.
 */
export type DeletedMessages = {
  /** The deleted messages; a parent precedes its children. */
  messages: ChatMessage[];
  /** The chat's head before the deletion. */
  head?: string;
};

/** Response of `POST /app/chats/{id}/stop`, sent after the answer ended. */
export type StoppedResponse = {
  /** Whether an answer was in progress. */
  stopped: boolean;
};

/** Progress of a prompt. */
export type PromptReading = {
  /** Tokens that are cached or read. */
  tokens: number;
  /** Tokens of the whole prompt. */
  total_tokens: number;
  /** Estimated time until the first token of the answer; absent before the first part is read. */
  left_ms?: number;
};

/** Progress of the weights of a model that was loaded for an answer. */
export type WeightsLoading = {
  /** Bytes that are in memory. */
  bytes: number;
  /** Bytes of all weights. */
  total_bytes: number;
};

/** One line of a streamed answer. */
export type ChatLine =
  /** The user's message, once; absent if the client attaches to an answer in progress. */
  | { user: ChatMessage }
  /** The answer with its text so far, once. */
  | { answer: ChatMessage }
  /** The first step reads the weights from the disk; some lines before the first progress of the prompt. */
  | { loading: WeightsLoading }
  /** The prompt is being read; some lines before the first delta of a long prompt. */
  | { reading: PromptReading }
  /** A delta of the thinking. */
  | { thinking: string }
  /** A delta of the text. */
  | { text: string }
  /** A new step, which takes the texts of the answer so far, or a step that has changed. */
  | { step: StepLine }
  /** The final answer, complete or stopped; the last line. */
  | { done: ChatMessage }
  /** The incomplete answer with its error; the last line. */
  | { failed: ChatMessage };

/** Result of the search for a question in the collection of its chat. The passages precede the question in the prompt. */
export type Sources = {
  /** Id of the collection. */
  collection: string;
  /** Name of the collection at the time of the search; empty if it could not be read. */
  name: string;
  /** Number of the first passage in the prompt. The numbers continue those of earlier questions of the branch. */
  first: number;
  /** Passages, best first. */
  hits: CollectionHit[];
  /** Why the search used words only; absent if it used meaning too. */
  words_only?: WordsOnly;
  /** Why the search failed. The question was then sent without passages. */
  error?: ErrorBody;
};

/** A step of an answer: texts that the model wrote before it called tools, and the calls. */
export type ToolStep = {
  /** Thinking before the calls. */
  thinking?: string;
  /** Text before the calls; Markdown. */
  content: string;
  /** The calls. */
  calls: StepCall[];
};

/** A call of a tool. */
export type StepCall = {
  /** Id of the call, unique in its answer. */
  id: string;
  /** Name of the function that the model called. */
  function: string;
  /** Name of the server, or of a tool of this program: `web` or `files-of-folder`. Empty if no tool has the name. */
  origin: string;
  /** Name of the tool at its origin. */
  tool: string;
  /** The arguments. */
  arguments: Record<string, unknown>;
  /** State of the call. */
  state: StepCallState;
  /** Text of the result, or of the error. It is the text of another program. */
  result?: string;
  /** Whether the result was shortened. */
  truncated?: boolean;
  /** Number of images of the result. They are not stored. */
  images?: number;
  /** Duration of the call. */
  duration_ms?: number;
};

/** State of a call of a tool. */
export type StepCallState =
  /** The user is asked. */
  | "waiting"
  /** In progress. */
  | "running"
  /** Complete. */
  | "done"
  /** The tool or its server reports an error. */
  | "failed"
  /** The user refused it. */
  | "refused"
  /** The answer was stopped, or the daemon ended. */
  | "interrupted";

/** Why tools were left out of an answer. */
export type ToolsLeftOut = {
  /** The cause, for translations. */
  cause: LeftOutCause;
  /** Their origin; absent if tools of several origins were left out. */
  origin?: string;
  /** Number of the tools, if they exceed a limit. */
  count?: number;
  /** The reason, on one line. */
  reason: string;
};

/** The cause why tools were left out of an answer. */
export type LeftOutCause =
  /** The model cannot call tools. */
  | "model"
  /** Two models are compared. */
  | "comparison"
  /** The tools exceed a limit. */
  | "limit"
  /** A server or the network failed; the reason has the details. */
  | "failure";

/** A step that is new or has changed. */
export type StepLine = {
  /** Index of the step. If it is the number of steps so far, the step is new, and has the texts of all deltas so far. */
  index: number;
  /** The whole step. */
  step: ToolStep;
};

/** `POST /app/chats/{id}/calls/{call}`: decides on a call that waits. */
export type DecideCallRequest = {
  /** The decision. */
  decision: CallDecision;
};

/** The user's decision on a call. */
export type CallDecision =
  /** Run this call. */
  | "once"
  /** Run this call and all later calls of the tool. */
  | "always"
  /** Do not run this call. */
  | "refuse"
  /** Never run the tool. */
  | "never";

/** `GET /app/chats?folder=&trash=&limit=&after=`. */
export type ChatsResponse = {
  /** Pinned chats, last changed first; on the first page only. */
  pinned: ChatSummary[];
  /** Other chats, last changed first. */
  chats: ChatSummary[];
  /** Value of `after` for the next page; absent on the last page. */
  next?: string;
  /** All folders with a chat, by name; on the first page only. */
  folders: ChatFolder[];
  /** Notices since the daemon started: the last repair, and a failed erasure. On the first page only. */
  notices?: ErrorBody[];
};

/** A folder of chats. It exists while it has a chat. */
export type ChatFolder = {
  /** Name of the folder. */
  name: string;
  /** Number of chats, without those in the trash. */
  chats: number;
};

/** One line of `GET /app/chats/events`, which sends a line for each change. */
export type ChatEvent =
  /** A new chat, or a chat whose list row changed. */
  | { chat: ChatSummary }
  /** The id of a chat that was moved to the trash or deleted. */
  | { removed: string }
  /**
   * Number of changes that are not sent one by one: of an import, or because the client read too slowly. The client
   * should list again.
   */
  | { missed: number };

/** `GET /app/chats/search?q=&limit=`. */
export type ChatSearchResponse = {
  /** Titles first, then messages; newest first. */
  hits: ChatHit[];
};

/** A message or title with all words of a search. */
export type ChatHit = {
  /** The chat's id. */
  chat: string;
  /** The chat's title. */
  title: string;
  /** The message's id; absent if the title has the words. */
  message?: string;
  /** The text around the words, on one line. */
  snippet: string;
  /** Positions of the words in the snippet: begin and end of each, in UTF-16 code units, as JavaScript counts. */
  ranges: [number, number][];
};

/** `POST /app/chats/{id}/prefetch`. */
export type ChatPrefetched = {
  /** Fastest location of the cached rows before the prefetch. */
  warmth: Warmth;
  /** Number of prefixes that are prefetched to RAM. */
  contexts: number;
};

/** `GET /app/collections`. */
export type CollectionsResponse = {
  /** All collections, by name. */
  collections: Collection[];
};

/** A collection of documents. */
export type Collection = {
  /** Id of the collection. */
  id: string;
  /** Name of the collection. */
  name: string;
  /** Creation time. */
  created_at: Timestamp;
  /** The embedding model; absent if searches find words only. */
  model?: string;
  /** Number of documents. */
  documents: number;
  /** Number of chunks of all documents. */
  chunks: number;
  /** Chunks that have no vector because the model cannot read their script. Searches find them by their words. */
  unreadable_chunks: number;
  /** Whether searches find chunks by their meaning. */
  meaning: MeaningSearch;
};

/** Whether searches find chunks by their meaning. */
export type MeaningSearch =
  /** All chunks that the model can read have vectors. */
  | { state: "ready" }
  /** Vectors are being computed. Searches use those that exist. */
  | ({ state: "embedding" } & {
      /** Chunks with vectors. */
      done: number;
      /** Chunks that get vectors. */
      total: number;
    })
  /** The collection has no embedding model. */
  | { state: "no_model" }
  /** The embedding model is not installed. */
  | { state: "model_missing" }
  /** The embedding model failed. The daemon tries again after a while. */
  | ({ state: "failed" } & {
      /** Error of the model. */
      error: ErrorBody;
    });

/** `POST /app/collections`: creates a collection. */
export type NewCollectionRequest = {
  /** Name of the collection. */
  name: string;
  /** The embedding model; empty for none. If absent, an installed embedding model is used. */
  model?: string;
};

/** `PATCH /app/collections/{id}`: changes a collection. Absent fields stay. */
export type CollectionChange = {
  /** New name. */
  name?: string;
  /** The embedding model; empty for none. Another model computes all vectors again. */
  model?: string;
};

/** `GET /app/collections/{id}`. */
export type CollectionResponse = {
  /** The collection. */
  collection: Collection;
  /** Its documents, in the order in which they were added. */
  documents: CollectionDocument[];
};

/** A document of a collection. */
export type CollectionDocument = {
  /** Id of the document. */
  id: string;
  /** File name. */
  name: string;
  /** Format of the file; absent until its text was read. */
  format?: DocumentFormat;
  /** Pages, sheets or slides; absent for formats without them. */
  pages?: number;
  /** Bytes of the file. */
  bytes: number;
  /** When the document was added. */
  added_at: Timestamp;
  /** Number of chunks. */
  chunks: number;
  /** Chunks that have no vector because the model cannot read their script. */
  unreadable_chunks: number;
  /** Progress of the document. */
  status: DocumentStatus;
};

/** Progress of a document. */
export type DocumentStatus =
  /** Its text is being read. */
  | { state: "reading" }
  /** Vectors are being computed. Searches find it by its words. */
  | ({ state: "embedding" } & {
      /** Chunks with vectors. */
      done: number;
      /** Chunks that get vectors. */
      total: number;
    })
  /** Searches find it. If the collection has no model, they find it by its words only. */
  | { state: "ready" }
  /** Its text could not be read. */
  | ({ state: "failed" } & {
      /** Why. */
      error: ErrorBody;
    });

/** `POST /app/collections/{id}/search`. */
export type CollectionSearch = {
  /** A question, or words. */
  query: string;
  /** Most hits; 5 if absent. */
  limit?: number;
};

/** Hits of a search in a collection. */
export type CollectionHits = {
  /** Chunks, best first. */
  hits: CollectionHit[];
  /** Why the search used words only; absent if it used meaning too. */
  words_only?: WordsOnly;
};

/** Why a search used words only. */
export type WordsOnly =
  /** The collection has no embedding model. */
  | "no_model"
  /** The embedding model is not installed. */
  | "model_missing"
  /** The embedding model failed. */
  | "model_failed"
  /** No chunk has a vector yet. */
  | "no_vectors"
  /** The embedding model cannot read the script of the query, for example Chinese. */
  | "script"
  /** The embedding model took too long: it may wait for other models. */
  | "timeout";

/** A chunk that a search found. */
export type CollectionHit = {
  /** Id of the document. */
  document: string;
  /** File name of the document. */
  name: string;
  /** Page, sheet, slide or section of the chunk. */
  place: PartPlace;
  /** Number of the chunk in its document, from 0. */
  chunk: number;
  /** Text of the chunk. */
  text: string;
  /** Score from 0 to 1: 1 for a chunk that is first by words and by meaning. */
  score: number;
  /** How the search found the chunk. */
  by: HitOrigin[];
};

/** How a search found a chunk. */
export type HitOrigin =
  /** By words of the query (BM25). */
  | "words"
  /** By the cosine of its vector and that of the query. */
  | "meaning";

/** The first line, sent at once. */
export type DesktopPlaces = {
  /** Absolute path of the folder for the window's state. */
  config_folder: string;
  /** Absolute path of the daemon's log. */
  log_file: string;
};

/** The second line, sent when the daemon responds. `cairn` may have to start it first. */
export type DesktopServer = {
  /** Address of the daemon, for example `http://127.0.0.1:11434`. */
  address: string;
  /** Bearer token of `/app`. */
  token: string;
};

/** Result of a search. `cairn search --json` prints it too. */
export type DiscoverResponse = {
  /** Models; those of Cairn's catalogue come first. */
  models: DiscoveredModel[];
  /** Whether the kernels are being measured, so that a later request has speeds. */
  measuring?: boolean;
  /** Why the result is incomplete, in one line. */
  problem?: string;
};

/** A model that can be pulled. */
export type DiscoveredModel = {
  /** Name to pull; of a variant that suits most machines, if one is known. */
  name: string;
  /** Title at the source: `qwen3`, or `user/repository`. */
  title: string;
  /** The source. */
  from: DiscoveredFrom;
  /** Description in one sentence; empty if there is none. */
  about?: string;
  /** Tasks: `chat`, `code`, `text-generation`, ... */
  tasks?: string[];
  /** Licence, as its publisher names it. */
  licence?: string;
  /** Recent downloads, if the source counts them. */
  downloads?: number;
  /** Whether a variant is already in a library. */
  here: boolean;
  /** Variants, smallest first; empty if unknown. */
  variants: DiscoveredVariant[];
};

/** A variant of a model. */
export type DiscoveredVariant = {
  /** Name to pull: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`. */
  name: string;
  /** Number of parameters, for example `8.2B`. */
  parameters?: string;
  /** Quantization. */
  quantization?: string;
  /** Bytes to download. */
  size: number;
  /** Whether the size is an estimate. */
  estimated: boolean;
  /** Whether the variant is already in a library. */
  here: boolean;
  /** Estimated speed on this machine; absent if it cannot be estimated, or nothing is measured yet. */
  speed?: Speed;
};

/** Source of a model. */
export type DiscoveredFrom =
  /** Ollama's library. */
  | "library"
  /** Hugging Face. */
  | "hugging_face";

/** `POST /app/documents?name=`: the text of a document. Its bytes are the request's body. */
export type DocumentText = {
  /** File name, as the client sent it. */
  name: string;
  /** Format of the file. */
  format: DocumentFormat;
  /** Pages, sheets, slides or sections that have text, in the order of the document. */
  parts: DocumentPart[];
  /** Pages, sheets or slides of the document, with those that have no text; absent for formats without them. */
  pages?: number;
  /** Characters of all parts. */
  chars: number;
};

/** Format of a document. */
export type DocumentFormat =
  /** Portable Document Format. */
  | "pdf"
  /** Word document. */
  | "docx"
  /** Excel workbook. */
  | "xlsx"
  /** PowerPoint presentation. */
  | "pptx"
  /** Web page. */
  | "html"
  /** Markdown. */
  | "markdown"
  /** Any other text. */
  | "text";

/** Part of a document. */
export type DocumentPart = {
  /** Place in the document. */
  place: PartPlace;
  /** Text of the part. */
  text: string;
};

/** Place of a part in its document. */
export type PartPlace =
  /** The document, or its beginning before the first heading. */
  | { kind: "whole" }
  /** A page. */
  | ({ kind: "page" } & {
      /** Number of the page, from 1. */
      number: number;
    })
  /** A slide. */
  | ({ kind: "slide" } & {
      /** Number of the slide, from 1. */
      number: number;
    })
  /** A sheet of a workbook. */
  | ({ kind: "sheet" } & {
      /** Name of the sheet. */
      name: string;
    })
  /** A section below a heading. */
  | ({ kind: "heading" } & {
      /** Text of the heading. */
      text: string;
    });

/** `GET /app/downloads`, and each line of `GET /app/downloads/events`, which sends one after each change. */
export type DownloadsResponse = {
  /** Downloads in the order of the queue. */
  downloads: Download[];
  /** Speed limit of all downloads together; absent for no limit. */
  limit_bytes_per_second?: number;
};

/** A download of a model. */
export type Download = {
  /** Id, valid while this daemon runs. */
  id: number;
  /** The model. */
  model: string;
  /** State of the download. */
  state: DownloadState;
  /** Bytes of the model; 0 until its manifest is downloaded. */
  total: number;
  /** Bytes completed. */
  completed: number;
  /** Speed over the last seconds. */
  bytes_per_second: number;
  /** Remaining time at this speed; absent if the speed is 0. */
  eta_seconds?: number;
  /** Bytes on disk that a discard would free. */
  held_bytes: number;
  /** Host of the current source. */
  source?: string;
  /** The last error that was handled by a retry or another source. */
  problem?: string;
  /** Why the download failed. */
  error?: ErrorBody;
  /** Whether the download continues without a client. */
  detached: boolean;
};

/** State of a download. */
export type DownloadState =
  /** Waits in the queue. */
  | "queued"
  /** In progress. */
  | "running"
  /** Paused by the user, also after a restart of the daemon. */
  | "paused"
  /** Cancelled by the user, or its client disconnected. */
  | "stopped"
  /** Failed. */
  | "failed"
  /** Complete. */
  | "done";

/** `POST /app/downloads`: downloads a model, whether or not a client follows it. The response is a [`Download`]. */
export type DownloadRequest = {
  /** The model's name. */
  model: string;
  /** Whether plain `http` is allowed. */
  insecure?: boolean;
  /** Addresses of mirrors to try before the registry. */
  sources?: string[];
  /** Whether the model is downloaded even if this version cannot run it, for example to share it. */
  force?: boolean;
};

/** `POST /app/downloads/resume`. The response is a [`DownloadsResponse`]. */
export type ResumeRequest = {
  /** An id, or the name of the model. */
  download: string;
  /** Whether the model is downloaded even if this version cannot run it. */
  force?: boolean;
};

/** `POST /app/downloads/pause`, `cancel` and `discard`. The response is a [`DownloadsResponse`]. */
export type DownloadChoice = {
  /** An id, or the name of the model. */
  download: string;
};

/** `POST /app/downloads/reorder`. The response is a [`DownloadsResponse`]. */
export type ReorderRequest = {
  /** An id, or the name of the model. */
  download: string;
  /** New position in the queue, from 0. */
  position: number;
};

/** `POST /app/downloads/cap`. The response is a [`DownloadsResponse`]. */
export type CapRequest = {
  /** Speed limit of all downloads together; absent or 0 for no limit. */
  bytes_per_second?: number;
};

/** Current state of the machine. `GET /app/hardware/events` sends one per line, every two seconds. */
export type HardwareResponse = {
  cpu: HardwareCpu;
  memory: HardwareMemory;
  kernels: HardwareKernels;
  /** Empty if none was found, or if this system is not supported yet. */
  gpus: HardwareGpu[];
  disks: HardwareDisk[];
};

/** The processor. */
export type HardwareCpu = {
  /** Brand name; empty if the system does not report it. */
  brand: string;
  /** `x86_64`, `aarch64`, ... */
  architecture: string;
  /** Cores of the whole machine. */
  physical_cores: number;
  /** Hardware threads of the whole machine. */
  logical_cores: number;
  /** Cores that Cairn uses, within affinity and a container's quota. */
  used_cores: number;
  /** Instruction sets that the kernels can use, for example `avx2`. */
  features: string[];
};

/** Main memory. */
export type HardwareMemory = {
  /** Bytes of the whole machine. */
  total_bytes: number;
  /** A container's limit, if it is lower. */
  limit_bytes?: number;
  /** Bytes available without swapping. */
  available_bytes: number;
  /** Bytes of the daemon, including resident mapped model files; absent if the system does not report them. */
  ours_bytes?: number;
  /** Bytes of `ours_bytes` that are mapped files. The system can reclaim them. */
  ours_mapped_bytes?: number;
  /** Bytes of the RAM tier. */
  kept_bytes: number;
};

/** Variants of the compute kernels. */
export type HardwareKernels = {
  /** Name of the variant in use. */
  in_use: string;
  /** All variants of this build, best first. */
  variants: KernelVariant[];
  /** Whether they are being measured. */
  measuring: boolean;
};

/** A variant of the compute kernels. */
export type KernelVariant = {
  /** Name, for example `avx2-fma-f16c`, as in the setting `engine.kernel`. */
  name: string;
  /** Whether this processor can run it. */
  usable: boolean;
  /** Whether the engine uses it. */
  in_use: boolean;
  /** Features that this processor lacks. */
  lacks?: string[];
  /** Measured rates by type of weights; empty before the first measurement. */
  rates?: KernelRate[];
};

/** A graphics processor. */
export type HardwareGpu = {
  /** Name, or vendor and number. */
  name: string;
  /** `nvidia`, `amd`, `intel`, `apple` or another word. */
  vendor: string;
  /** Driver, with its version if known. */
  driver?: string;
  /** Dedicated memory, if known. */
  memory_bytes?: number;
  /** Whether this version of Cairn computes on this processor. */
  used: boolean;
};

/** A disk with a folder of Cairn. */
export type HardwareDisk = {
  /** Use of the folder. */
  holds: DiskHolds;
  /** The folder. */
  path: string;
  /** Bytes of the disk; absent if the system does not report them. */
  total_bytes?: number;
  /** Bytes that this user may still write. */
  free_bytes?: number;
};

/** Use of a folder. */
export type DiskHolds =
  /** Cairn's own library. */
  | "models"
  /** A read-only library. */
  | "linked"
  /** The SSD tier. */
  | "cache"
  /** Chats and other data of the user. */
  | "data";

/** What an API key allows. */
export type KeyScope =
  /** Generate, and list models. */
  | "chat"
  /** Pull, push, create, copy, delete and list models. */
  | "models"
  /** Read `/metrics`. */
  | "metrics"
  /** Everything, also Cairn's own API with chats, settings and keys. */
  | "admin";

/** `POST /app/keys`: creates a key. */
export type CreateKeyRequest = {
  /** Name of the key, for lists, the request log and to revoke it. */
  name: string;
  /** What the key allows. */
  scopes: KeyScope[];
};

/** Response to [`CreateKeyRequest`]. */
export type CreateKeyResponse = {
  /** The key, for `Authorization: Bearer KEY` or `x-api-key: KEY`. It is shown only here. */
  key: string;
};

/** `POST /app/keys/revoke`. */
export type RevokeKeyRequest = {
  /** Name of the key, or the key itself. */
  name: string;
};

/** `GET /app/keys`. */
export type KeysResponse = {
  /** Keys by name. */
  keys: ListedKey[];
};

/** A key in a list, without its text. */
export type ListedKey = {
  /** Name of the key. */
  name: string;
  /** What the key allows. */
  scopes: KeyScope[];
  /** When the key was created. */
  created_at: Timestamp;
  /** When the key was used, at most an hour before its last use. Absent if it was never used. */
  last_used_at?: Timestamp;
};

/** `GET /app/libraries`: all libraries; Cairn's own is first. */
export type LibrariesResponse = {
  /** The libraries. */
  libraries: Library[];
};

/** A library of models. */
export type Library = {
  /** Root folder. */
  path: string;
  /** Role of the library. */
  role: LibraryRole;
  /** Whether the library exists and can be read. */
  state: LibraryState;
  /** Why the library is absent or unreadable. */
  reason?: string;
  /** Whether the absence is unexpected. Cairn's own library is created with its first model. */
  missed: boolean;
  /** Number of models. */
  models: number;
  /** Unreadable manifests. */
  skipped?: SkippedFile[];
};

/** An unreadable manifest. */
export type SkippedFile = {
  path: string;
  reason: string;
};

/** Role of a library. */
export type LibraryRole =
  /** Cairn's own library; new models are stored there. */
  | "own"
  /** A library that the user linked; read-only. */
  | "linked"
  /** Ollama's library; read-only. */
  | "found";

/** State of a library. */
export type LibraryState =
  /** The library exists. */
  | "present"
  /** The library does not exist, or its disk is not mounted. */
  | "absent"
  /** The library exists but cannot be read. */
  | "unreadable";

/** `GET /app/usage`: disk usage of the libraries. */
export type UsageResponse = {
  /** The libraries. */
  libraries: LibraryUsage[];
  /** Bytes of all libraries: models, garbage and downloads. */
  total_bytes: number;
};

/** Disk usage of a library. Shared blobs are counted once. */
export type LibraryUsage = {
  library: Library;
  /** Models, largest first. */
  models: ModelUsage[];
  /** Bytes of all models. */
  model_bytes: number;
  /** Bytes that several models share. */
  shared_bytes: number;
  /** Bytes of blobs that no model uses. */
  unreferenced_bytes: number;
  unreferenced_files: number;
  /** Bytes of partial downloads. */
  partial_bytes: number;
  partial_files: number;
  /** Free bytes of the disk; `null` if the system does not report them. */
  free_bytes: number | null;
};

/** Disk usage of a model. */
export type ModelUsage = {
  /** Name of the model. */
  model: string;
  /** Bytes that no other model uses. A delete frees them. */
  own_bytes: number;
  /** Bytes that other models share. */
  shared_bytes: number;
  /** Number of missing blobs. */
  missing: number;
};

/** `POST /app/logins`: verifies a login at a registry and stores it. */
export type LoginRequest = {
  /** `host[:port]`. */
  registry: string;
  /** User name. */
  user: string;
  /** The password or access token. */
  password: string;
  /** Hosts of token servers that may receive the password too. */
  token_servers?: string[];
  /** Whether plain HTTP is allowed, also for the password. */
  insecure?: boolean;
};

/** `POST /app/logins/forget`. */
export type LogoutRequest = {
  /** `host[:port]`. */
  registry: string;
};

/** `GET /app/logins`. */
export type LoginsResponse = {
  /** Logins in the order of their hosts. */
  logins: KnownLogin[];
};

/** A stored login. */
export type KnownLogin = {
  /** `host[:port]`. */
  registry: string;
  /** User name. */
  user: string;
};

/** `GET /app/mirror`, and the response to changes. */
export type MirrorResponse = {
  /** Whether other machines may read models here. */
  shares: boolean;
  /** Whether missing models are downloaded for clients. */
  fetches: boolean;
  /** Allowed origins, `host/namespace` each. */
  origins: string[];
  /** This machine's public key. */
  key: string;
  /** Fingerprint of the key, for comparison by users. */
  fingerprint: string;
  /** Responses with a stored blob. */
  hits: number;
  /** Responses with a blob that was downloaded for this or another client. */
  misses: number;
  /** Responses with a stored manifest whose origin was unreachable. */
  stale: number;
  /** Bytes of blobs that were downloaded for clients. */
  fetched_bytes: number;
  /** Bytes of blobs that were sent, to all clients together. */
  sent_bytes: number;
  /** Clients since the daemon started; the one with most bytes is first. */
  clients: MirrorClient[];
  /** Keys of peers for which missing models are downloaded. */
  known: KnownKey[];
  /** Mirrors that this machine has joined. */
  joined: KnownKey[];
  /** Peers on the local network, by name. */
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

/** A peer on the local network, as it announces itself. The announcement is not authenticated. */
export type FoundMachine = {
  /** Name of the machine. */
  name: string;
  /** Address with the port. */
  address: string;
  /** Version of Cairn. */
  version: string;
  /** Announced fingerprint of the peer's key. */
  fingerprint: string;
  /** Whether its key is trusted. An untrusted peer is used only for blobs whose digest is known. */
  joined: boolean;
  /** Whether the peer sent wrong bytes and is not used any more. */
  dropped: boolean;
  /** Time of the last announcement. */
  seen_at: Timestamp;
  /** Bytes downloaded from the peer. */
  got_bytes: number;
};

/** A trusted key, with a name or the address of a mirror. */
export type KnownKey = {
  label: string;
  key: string;
  fingerprint: string;
};

/** Response to `POST /app/mirror/invite`. */
export type InviteResponse = {
  /** Code to enter on the other machine. */
  code: string;
  /** End of validity. */
  until: Timestamp;
};

/** `POST /app/mirror/join`. */
export type JoinMirrorRequest = {
  /** `http://nas:11434`. */
  address: string;
  /** The code that the mirror shows. */
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

/** Output of `cairn list --json`. */
export type ListedModels = {
  /** The models, as in `/api/tags`. */
  models: TagsModel[];
  /** The searched libraries; empty for servers other than Cairn. */
  libraries: Library[];
};

/**
 * `POST /app/copy`: progress of a [`crate::ollama::CopyRequest`] of Cairn's own clients. The last line is
 * [`CopyLine::Success`] or an error. A copy within a library sends only this line.
 */
export type CopyLine =
  /** The digest is computed. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** The blob is copied and its digest computed. */
  | ({ status: "copying" } & {
      completed: number;
      total: number;
    })
  /** The model has its second name. */
  | ({ status: "success" } & CopyResponse);

/** Result of a copy. */
export type CopyResponse = {
  /** Name of the source, as the client sent it. */
  source: string;
  /** The new name, as stored. */
  destination: string;
  /** Bytes written; `None` for servers other than Cairn. */
  copied_bytes: number | null;
};

/** `POST /app/delete`: response to a [`crate::ollama::DeleteRequest`] of Cairn's own clients. */
export type DeleteResponse = {
  /** Name of the model, as stored. */
  model: string;
  /** Freed bytes; `None` for servers other than Cairn. */
  freed_bytes: number | null;
};

/** `POST /app/remotes`: finds out what a server is, and stores it as a remote. */
export type AddRemoteRequest = {
  /** Name of the remote. */
  name: string;
  /** Address of the server, with or without `/v1`. */
  url: string;
  /** API key. */
  key?: string;
  /** Whether the key may be sent over plain HTTP to another machine. */
  insecure?: boolean;
};

/** `POST /app/remotes/remove`. */
export type RemoveRemoteRequest = {
  /** Name of the remote. */
  name: string;
};

/** `POST /app/remotes/check`: checks remotes now. */
export type CheckRemotesRequest = {
  /** Name of one remote; all if absent. */
  name?: string;
};

/** Response of all paths. */
export type RemotesResponse = {
  /** Remotes in the order of their names. */
  remotes: Remote[];
};

/** A remote and its state. */
export type Remote = {
  /** Its name. */
  name: string;
  /** Address of its server. */
  url: string;
  /** `cairn`, `ollama` or `openai`. */
  kind: string;
  /** Whether it has an API key. */
  has_key: boolean;
  /** Its state. */
  state: RemoteState;
  /** Why it is not available, or gets no requests. */
  error?: ErrorBody;
  /** How long it took to list its models in the last check, in milliseconds; absent if it did not list them. */
  latency_ms?: number;
  /** Names of its models. */
  models: string[];
  /** Those of them that a local model of the same name hides. */
  hidden_models?: string[];
  /** Requests in progress. */
  outstanding: number;
  /** Requests since the start of the daemon. */
  requests: number;
  /** Those of them that failed because of the remote. */
  failures: number;
  /** Prompt tokens of complete answers. */
  prompt_tokens: number;
  /** Prompt tokens that the remote reported as cached. */
  cached_tokens: number;
  /** Answer tokens. */
  answer_tokens: number;
};

/** State of a remote. */
export type RemoteState =
  /** It was not checked yet. */
  | "unknown"
  /** It listed its models. */
  | "up"
  /** It did not list its models. */
  | "down"
  /** It failed repeatedly and gets no requests for a while. */
  | "paused";

/** `POST /app/scan`. The response is a stream of [`ScanLine`]s. */
export type ScanRequest = {
  /** Absolute paths of folders to scan. */
  folders?: string[];
  /** Whether to scan the folders of other apps too. */
  apps?: boolean;
  /** Whether to read files completely, to compare their digests. */
  digests?: boolean;
};

/** Progress of a scan. The last line is [`ScanLine::Done`] or an error. */
export type ScanLine =
  /** Files are read for their digests. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** The scan is complete. */
  | ({ status: "done" } & ScannedModels);

/** Result of a scan. */
export type ScannedModels = {
  /** Models, projectors, adapters and broken files. */
  models: FoundModel[];
  /** Folders that were scanned. */
  folders: ScannedFolder[];
  /** Folders that could not be scanned. */
  skipped: SkippedFile[];
  /** First folder that was skipped because it is too deep or the scan has too many entries. */
  cut?: string;
};

/** A scanned folder. */
export type ScannedFolder = {
  /** The app; `folder` for a requested folder. */
  app: string;
  /** Path of the folder. */
  path: string;
};

/** A file that a scan found. */
export type FoundModel = {
  /** Name that an import would use. */
  name: string;
  /** Bytes of all files. */
  size: number;
  /** The app that stores it; `folder` for a requested folder. */
  app: string;
  /** Path of the file; the first part of a split model. */
  path: string;
  /** Number of files. */
  parts: number;
  /** Relation to the libraries. */
  state: FoundState;
  /** Model in the libraries that has, or may have, the same contents. */
  model?: string;
  /** Why the file cannot be read. */
  reason?: string;
  /** SHA-256, `sha256:...`, if available. */
  digest?: string;
  /** Architecture; empty if unknown. */
  family: string;
  /** Number of parameters, for example `3.2B`. */
  parameter_size: string;
  /** Quantization, for example `Q4_K_M`. */
  quantization_level: string;
};

/** Relation of a found file to the libraries. */
export type FoundState =
  /** A model that can be imported. */
  | "new"
  /** A library has the same contents. */
  | "here"
  /** A library has a model of the same size. */
  | "maybe_here"
  /** A projector, which encodes images for a model. */
  | "projector"
  /** An adapter. */
  | "adapter"
  /** A file that cannot be read. */
  | "broken";

/** State of the server. `GET /app/server/events` sends one per line after each change. */
export type ServerResponse = {
  /** Version, `x.y.z`. */
  version: string;
  /** Start time. */
  started_at: Timestamp;
  /** Listening addresses, for example `127.0.0.1:11434`. */
  addresses: string[];
  /** Address for other programs of this machine, for example `http://127.0.0.1:11434`. */
  url: string;
  /** Whether other machines can connect. */
  lan: boolean;
  /** Whether other machines may pull models from it. */
  share: boolean;
  /** Web origins besides local ones that may use `/api`. */
  origins: string[];
  /** Clients, most recent first. */
  clients: ServerClient[];
  /** Recent requests, newest first. They are only in memory. */
  requests: LoggedRequest[];
};

/** `GET /app/log?lines=N`: the end of the daemon's log, which never has prompts or answers. */
export type LogResponse = {
  /** Path of the newest file. */
  path: string;
  /** The last lines, oldest first. */
  lines: string[];
};

/** A client. */
export type ServerClient = {
  /** Name from its user agent, without a version; `cairn` for Cairn's own clients. */
  name: string;
  /** IP address. */
  address: string;
  /** Whether it is one of Cairn's own clients. */
  own: boolean;
  /** Time of the last request. */
  last_seen_at: Timestamp;
  /** Number of recent requests. */
  requests: number;
};

/** A request and its result. */
export type LoggedRequest = {
  /** Id; later requests have larger ids. */
  id: number;
  /** Time of arrival. */
  at: Timestamp;
  /** The client, as in [`ServerClient`]. */
  client: string;
  /** The client's IP address. */
  address: string;
  /** Name of the client's API key, if it has a valid one. */
  key?: string;
  /** `GET`, `POST`, ... */
  method: string;
  /** Path without the query. */
  path: string;
  /** Status of the response. */
  status: number;
  /** Whether the request is in progress. */
  running: boolean;
  /** Duration so far. */
  ms: number;
  /** The requested model. */
  model?: string;
  /** Time to the first token, for inference requests. */
  first_token_ms?: number;
  /** Tokens of the prompt. */
  prompt_tokens?: number;
  /** Prompt tokens that were found in the cache. */
  cached_tokens?: number;
  /** Tokens of the answer. */
  answer_tokens?: number;
  /** Speed of the answer. */
  tokens_per_second?: number;
  /** Dropped tokens and messages, if the context was full. */
  truncated?: Truncated;
};

/** Response to `POST /app/session/ticket`, which Cairn's own programs send with the daemon token. */
export type TicketResponse = {
  /** `http://127.0.0.1:PORT/ui/#t=...`: valid once, for a minute. */
  url: string;
};

/** `POST /app/session`: sends the ticket after `#t=`. Requires no token. */
export type SessionRequest = {
  /** The ticket. */
  ticket: string;
};

/** Response to [`SessionRequest`]. */
export type SessionResponse = {
  /** Bearer token of this page, valid until the daemon stops. */
  token: string;
};

/** `GET /app/settings`, and the response to a change. */
export type SettingsResponse = {
  /** Path of `config.toml`, even if it does not exist. */
  path: string;
  /** Why `config.toml` cannot be read. Then it is ignored, and settings cannot be changed here. */
  problem?: string;
  /** Whether a changed setting requires a restart of the daemon. */
  restart: boolean;
  /** All settings, ordered by group. */
  settings: Setting[];
};

/** A setting. */
export type Setting = {
  /** Name in `config.toml`, for example `cache.ram`. */
  key: string;
  /** Group: the part of the key before the dot. */
  group: string;
  /** Kind of the value. */
  kind: SettingKind;
  /** Current value; absent if it depends on the machine or is empty. Secrets are never shown. */
  value?: SettingValue;
  /** Default; absent if it depends on the machine or is empty. */
  default?: SettingValue;
  /** Description of the default. */
  default_about: string;
  /** Origin of the value. */
  origin: SettingOrigin;
  /** The variable or flag that sets the value. Then it cannot be changed here. */
  origin_name?: string;
  /** Environment variable of the setting. */
  env?: string;
  /** Flag of `cairn serve`. */
  flag?: string;
  /** Valid values of a choice. */
  choices?: string[];
  /**
   * Unit of a number or format of a text: `tokens`, `bytes_per_second`, `duration` (`5m`, `30d`), `list` (separated
   * by commas), `paths` (as in `PATH`), ...
   */
  unit?: string;
  /** When a change takes effect. */
  applies: SettingApplies;
  /** Whether the value requires a restart of the daemon. */
  restart: boolean;
  /** Description in one line of English. */
  about: string;
};

/** Kind of a setting's value. */
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
  /** One of a fixed set of words. */
  | "choice"
  /** Text that clients do not display, such as a password. */
  | "secret";

/** Value of a setting: a boolean for `bool`, a number for `number` and `bytes`, a string for all other kinds. */
export type SettingValue =
  | boolean
  | number
  | string;

/** Origin of a value. Later ones take precedence. */
export type SettingOrigin =
  /** The default. */
  | "default"
  /** `config.toml`. */
  | "file"
  /** The daemon's environment. */
  | "environment"
  /** The daemon's command line. */
  | "flag";

/** When a change takes effect. */
export type SettingApplies =
  /** Immediately. */
  | "now"
  /** When a model is loaded next. */
  | "next_load"
  /** When the daemon restarts. */
  | "restart";

/** `PATCH /app/settings`: values by key, `null` for the default. All are written, or none. */
export type SettingsChange = Record<string, SettingValue | null>;

/** Why a change was refused. */
export type SettingsRefused = {
  /** Invalid settings. */
  wrong: WrongSetting[];
} & ErrorBody;

/** An invalid setting. */
export type WrongSetting = {
  /** Key of the setting. */
  key: string;
} & ErrorBody;

/** `POST /app/cache/test`: tests places for tiers without using them. An empty request tests the configured places. */
export type CacheTestRequest = {
  /** A folder on this machine. */
  folder?: string;
  /** A mounted share or a bucket's address. */
  remote?: string;
};

/** Result of a [`CacheTestRequest`]. Places that were not requested are absent. */
export type CacheTested = {
  /** The folder. */
  folder?: TestedPlace;
  /** The remote place. */
  remote?: TestedPlace;
};

/** A tested place. */
export type TestedPlace = {
  /** Path or address. */
  place: string;
  /** Whether the place can be used. */
  works: boolean;
  /** Why the place cannot be used. */
  reason?: string;
  /** Free bytes, if known. */
  free_bytes?: number;
  /** Time to write, read and remove a small file. */
  round_trip_ms?: number;
};

/** Speeds of the installed models. */
export type SpeedsResponse = {
  /** Models with a speed. Others do not answer, or nothing is measured yet. */
  models: InstalledSpeed[];
  /** Whether the kernels are being measured, so that a later request has more speeds. */
  measuring: boolean;
};

/** Speed of an installed model. */
export type InstalledSpeed = {
  /** Name of the model. */
  model: string;
  /** Its speed. */
  speed: Speed;
};

/** Speed of a model on this machine. */
export type Speed = {
  /** Speed of an answer, in a short context. */
  answer: SpeedFigure;
  /** Speed at which a prompt is read. */
  prompt: SpeedFigure;
};

/** A speed, measured or estimated. */
export type SpeedFigure = {
  /** Tokens in a second. */
  tokens_per_second: number;
  /** Whether the model was measured on this machine. Else it is an estimate. */
  measured: boolean;
};

/** Measured rates of a kernel variant with weights of one type. */
export type KernelRate = {
  /** The type, for example `Q4_K`. */
  type: string;
  /** Bytes of weights that an answer reads in a second. */
  decode_bytes_per_second: number;
  /** Multiplications and additions, each counted, that a prompt computes in a second. */
  prefill_operations_per_second: number;
};

/** Tools of the user. */
export type ToolsResponse = {
  /** Servers in the order of their names. */
  servers: ToolServer[];
  /** Whether pages of the web may be fetched. */
  web: boolean;
  /** The folder to read files from; `null` if the tool is off. */
  folder: string | null;
};

/** A server of tools, and its state. */
export type ToolServer = {
  /** Its name. */
  name: string;
  /** The program, if the server is one. */
  command?: string;
  /** Arguments of the program. */
  args?: string[];
  /** Names of the program's variables. */
  variables?: string[];
  /** The URL without its query, if the server has HTTP. */
  url?: string;
  /** Names of the headers of each request. */
  headers?: string[];
  /** Whether its tools are offered to models. */
  enabled: boolean;
  /** Whether it runs or is connected. */
  running: boolean;
};

/** `PATCH /app/tools`: changes the tools of this program. */
export type ToolsChange = {
  /** Whether pages of the web may be fetched; unchanged without it. */
  web?: boolean;
  /** The folder to read files from, or `null` to turn the tool off; unchanged without it. */
  folder?: string | null;
};

/** `POST /app/tools/servers`: adds a server, which is a program or has a URL. */
export type AddToolServerRequest = {
  /** Its name: letters, digits, `.`, `-` and `_`. */
  name: string;
  /** The program: a path, or a name in the `PATH`. */
  command?: string;
  /** Arguments of the program. */
  args?: string[];
  /** Variables of the program's environment. */
  variables?: Record<string, string>;
  /** URL of a server with streamable HTTP. */
  url?: string;
  /** Headers of each request. */
  headers?: Record<string, string>;
};

/** `PATCH /app/tools/servers/{name}`. */
export type ToolServerChange = {
  /** Whether its tools are offered to models. */
  enabled: boolean;
};

/** `POST /app/tools/import`: adds the servers of a text in the JSON of other apps. */
export type ImportToolsRequest = {
  /** The text. */
  text: string;
};

/** Response of `POST /app/tools/import`. */
export type ImportToolsResponse = {
  /** Names of the added servers. */
  names: string[];
  /** All tools. */
  tools: ToolsResponse;
};

/** Tools of one origin: of a server, or of this program. */
export type OriginTools = {
  /** Its tools. */
  tools: ListedTool[];
  /** The first of those that are not offered. */
  omitted: OmittedTool[];
  /** Number of those that are not offered. */
  omitted_count: number;
};

/** A tool and its permission. */
export type ListedTool = {
  /** Its name at its origin. */
  name: string;
  /** Description for models. */
  description: string;
  /** JSON Schema of its arguments. */
  arguments: Record<string, unknown>;
  /** Whether it may be called. */
  permission: ToolPermission;
};

/** A tool that is not offered. */
export type OmittedTool = {
  /** Its name. */
  name: string;
  /** The reason. */
  reason: string;
};

/** Whether a tool may be called. */
export type ToolPermission =
  /** The user is asked before each call. */
  | "ask"
  /** It is called without a question, until its server describes it in another way. */
  | "always"
  /** It is never called, and models do not see it. */
  | "never";

/** `PUT /app/tools/permission`. */
export type ToolPermissionRequest = {
  /** Name of the server, or of a tool of this program: `web` or `files-of-folder`. */
  origin: string;
  /** Name of the tool. */
  tool: string;
  /** Its permission. */
  permission: ToolPermission;
};

/** Whether pulled models are current. `cairn updates --json` prints it too. */
export type UpdatesResponse = {
  /** The models, in the order of the library. */
  models: ModelUpdate[];
};

/** Whether a model is current. */
export type ModelUpdate = {
  /** Name of the model. */
  model: string;
  /** The result. */
  state: UpdateState;
  /** Bytes that a pull would download. Only of a newer model. */
  download_bytes?: number;
  /** Why the registry could not be asked. Only of an unknown state. */
  problem?: string;
};

/** Result of comparing a model with its registry. */
export type UpdateState =
  /** The registry has the same model. */
  | "current"
  /** The registry has a newer model: a pull updates it. */
  | "newer"
  /** The registry no longer has the model. */
  | "removed"
  /** The model was made or changed on this machine. */
  | "made_here"
  /** The registry could not be asked. */
  | "unknown";

/** `POST /app/gc`: removes garbage from the daemon's library. */
export type GcRequest = {
  /** Only report. */
  dry_run?: boolean;
  /** Remove partial downloads of other programs too. */
  partials?: boolean;
};

/** Response to [`GcRequest`]. */
export type GcResponse = {
  /** Whether nothing was removed because of `dry_run`. */
  dry_run: boolean;
  /** Bytes that were or would be freed. */
  freed_bytes: number;
  /** Files that were or would be removed. */
  removed: LeftoverFile[];
  /** Garbage that is kept. */
  kept: LeftoverFile[];
};

/** A garbage file. */
export type LeftoverFile = {
  /** Path of the file. */
  path: string;
  /** Bytes on disk. */
  size: number;
  /** Kind of the file. */
  kind: LeftoverKind;
  /** Whether the file is younger than an hour, so that a program may be using it. */
  young: boolean;
};

/** Kind of a garbage file. */
export type LeftoverKind =
  /** A blob that no model uses. */
  | "unreferenced"
  /** A partial download. */
  | "partial";

/** `POST /app/verify`: reads blobs and compares them with their digests. The response is a stream of [`VerifyLine`]s. */
export type VerifyRequest = {
  /** Names of models; empty for all blobs of all libraries. */
  models?: string[];
  /** Remove damaged blobs of the daemon's library, so that the next pull downloads them again. */
  discard?: boolean;
};

/** Progress of a check. The last line is [`VerifyLine::Done`] or an error. */
export type VerifyLine =
  /** Blobs are read. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** The check is complete. */
  | ({ status: "done" } & VerifiedModels);

/** Result of a check. */
export type VerifiedModels = {
  /** Number of models. */
  models: number;
  /** Number of blobs. Shared blobs are counted once. */
  contents: number;
  /** Bytes of all blobs. */
  bytes: number;
  /** Damaged blobs. */
  flawed: FlawedContents[];
  /** Unreadable manifests. */
  skipped: SkippedFile[];
};

/** A damaged blob. */
export type FlawedContents = {
  /** Digest, `sha256:...`. */
  digest: string;
  /** Purpose, for example `model`; empty if no model uses the blob. */
  kind: string;
  /** Kind of the defect. */
  flaw: FlawKind;
  /** Description of the defect, with numbers. */
  reason: string;
  /** Models that use the blob. */
  models: string[];
  /** Root of the library. */
  library: string;
  /** Whether the library is the daemon's own. */
  own: boolean;
  /** Whether the blob was removed. */
  discarded: boolean;
};

/** Kind of a blob's defect. */
export type FlawKind =
  /** The blob is missing. */
  | "missing"
  /** The size differs from the manifest. */
  | "length"
  /** The contents differ from the digest. */
  | "damaged"
  /** The daemon has no permission to read the blob. */
  | "unreadable";

/** `run/daemon.json`: address and token of the user's daemon. Only this user can read it. */
export type DaemonFile = {
  /** Process id, for information. The lock of the daemon shows whether it runs. */
  pid: number;
  /** Start time. */
  started_at: Timestamp;
  /** Listening addresses, for example `127.0.0.1:11434`; clients use the first. */
  addresses: string[];
  /** Version, `x.y.z`. */
  version: string;
  /** Bearer token of `/app`. */
  token: string;
};

/** `GET /app/status`. */
export type StatusResponse = {
  version: string;
  pid: number;
  started_at: Timestamp;
  addresses: string[];
  /** Requests in progress, except this one. */
  active_requests: number;
  /** Loaded models. */
  loaded_models: number;
};

/** `POST /app/open`: makes a model file available until the daemon stops. */
export type OpenRequest = {
  /** Absolute path of a GGUF file. */
  path: string;
};

/** Response to [`OpenRequest`]. */
export type OpenResponse = {
  /** Name of the file in `/api`. */
  model: string;
  /** Whether the file has a chat template. */
  chat_template: boolean;
};

/** `POST /app/import`: imports a model file into the daemon's library. The response is a stream of [`ImportLine`]s. */
export type ImportRequest = {
  /** Absolute path of a GGUF file. */
  path: string;
  /** Name of the model; if absent, the name in the file. */
  name?: string;
  /** Create a hard link and make the file read-only, instead of a copy. */
  link?: boolean;
  /** Remove the file after the import. */
  move?: boolean;
  /** Replace an existing model of that name. */
  force?: boolean;
};

/** Progress of an import. The last line is [`ImportLine::Success`] or an error. */
export type ImportLine =
  /** The digest is computed. */
  | ({ status: "hashing" } & {
      completed: number;
      total: number;
    })
  /** The file is copied and its digest computed. */
  | ({ status: "copying" } & {
      completed: number;
      total: number;
    })
  /** The model exists. */
  | ({ status: "success" } & ImportedModel);

/** An imported model. */
export type ImportedModel = {
  /** Name of the model. */
  model: string;
  /** Bytes of the file. */
  size: number;
  /** How the file was imported. */
  way: ImportWay;
  /** Why the file was copied. */
  reason?: string;
  /** Whether the file was made read-only, for a hard link. */
  made_read_only: boolean;
  /** Whether the file was moved. */
  moved: boolean;
  /** Why the file was not removed although a move was requested. */
  kept_reason?: string;
  /** Whether the file has a chat template. */
  chat_template: boolean;
  /** Why the chat template cannot be used. */
  template_problem?: string;
};

/** How a file was imported. */
export type ImportWay =
  /** The library already had the contents. */
  | "present"
  /** The file was cloned and shares its disk blocks. */
  | "reflinked"
  /** The library has a hard link to the file. */
  | "linked"
  /** The file was renamed into the library. */
  | "moved"
  /** The file was copied. */
  | "copied";

/** `POST /app/load`: loads a model. */
export type LoadRequest = {
  /** The model's name. */
  model: string;
  /** Load the model even if the memory seems too small. */
  force?: boolean;
  /** How long the model stays loaded; if absent, the daemon's setting. */
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
  /** From another machine, the path needs an API key. Parameters: scope. */
  | "api_key_missing"
  /** The API key is wrong or was revoked. */
  | "api_key_invalid"
  /** The API key has none of the scopes that the path needs. Parameters: scope. */
  | "api_key_scope"
  /** The one-time address of the interface was used before or is too old. */
  | "session_expired"
  /** This client may not do that. Parameters: reason. */
  | "forbidden"
  /** The entry does not exist. Parameters: reason. */
  | "not_found"
  /** The daemon failed unexpectedly. Parameters: reason. */
  | "internal"
  /** The text cannot be the name of an API key. Parameters: name. */
  | "key_name_invalid"
  /** Another API key has the name. Parameters: name. */
  | "key_name_taken"
  /** There is no API key of that name. Parameters: name. */
  | "key_not_found"
  /** The limit of API keys is reached. Parameters: limit. */
  | "too_many_keys"
  /** The file of the API keys cannot be read, so no key is valid. Parameters: path, reason. */
  | "keys_unreadable"
  /** The file of the API keys cannot be written. Parameters: reason. */
  | "keys_unwritable"
  /** The text cannot be the name of a remote. Parameters: name. */
  | "remote_name_invalid"
  /** Another remote has the name. Parameters: name. */
  | "remote_name_taken"
  /** There is no remote of that name. Parameters: name. */
  | "remote_not_found"
  /** The limit of remotes is reached. Parameters: limit. */
  | "too_many_remotes"
  /** The text is not the address of a remote. Parameters: reason. */
  | "remote_url_invalid"
  /** The address of a remote is that of this daemon. Parameters: url. */
  | "remote_is_self"
  /** The API key of a remote has characters that cannot be sent. Parameters: reason. */
  | "remote_key_invalid"
  /** The API key of a remote would be sent unencrypted. Parameters: url. */
  | "remote_key_plain"
  /** The server does not list its models. Parameters: url, failure and those of the failure. */
  | "remote_not_a_server"
  /** The file of the remotes cannot be read. Parameters: path, reason. */
  | "remotes_unreadable"
  /** The file of the remotes cannot be written. Parameters: reason. */
  | "remotes_unwritable"
  /** No remote that has the model could answer. Parameters: reason, or remote, failure and those of the failure. */
  | "remote_unavailable"
  /** A remote refused the request. Parameters: remote, failure and those of the failure. */
  | "remote_refused"
  /** A remote failed during an answer. Parameters: remote, failure and those of the failure. */
  | "remote_interrupted"
  /** A failure of a remote: it cannot be reached. Parameters: reason. */
  | "remote_unreachable"
  /** A failure of a remote: it sent nothing for too long. Parameters: seconds. */
  | "remote_timeout"
  /** A failure of a remote: it closed the connection before the end of its response. Parameters: reason. */
  | "remote_disconnected"
  /** A failure of a remote: it redirects requests. */
  | "remote_redirected"
  /** A failure of a remote: it responded with an error. Parameters: status, reason. */
  | "remote_status"
  /** A failure of a remote: its response ends with an error. Parameters: reason. */
  | "remote_reported_error"
  /** A failure of a remote: its response is invalid or too long. Parameters: reason, remote. */
  | "remote_response_invalid"
  /** Too many requests wait already. */
  | "server_busy"
  /** The kernels cannot be measured while a model computes. */
  | "measurement_busy"
  /** This version cannot do that. Parameters: feature. */
  | "unsupported"
  /** The request needs a capability that the model lacks. Parameters: model, capability. */
  | "capability_missing"
  /** The engine could not start. Parameters: reason. */
  | "start_failed"
  /** A setting has an invalid value. `wrong` in the body lists all such settings with a code each. Parameters: reason. */
  | "setting_invalid"
  /** No setting has this key. */
  | "setting_unknown"
  /** A variable or flag of the running daemon overrides the setting. Parameters: by. */
  | "setting_overridden"
  /** The setting's value must be true or false. */
  | "setting_needs_bool"
  /** The setting's value must be an integer, 0 or more. */
  | "setting_needs_number"
  /** The setting's value must be a number of bytes. */
  | "setting_needs_size"
  /** The setting's value must be one of some words. Parameters: choices. */
  | "setting_needs_choice"
  /** The setting's value must be text. */
  | "setting_needs_text"
  /** The setting's value must be one line of text. */
  | "setting_needs_line"
  /** The setting's value must be an absolute path. */
  | "setting_needs_path"
  /** The setting's value must be an address, `host:port`. */
  | "setting_needs_address"
  /** The setting's text is too long. Parameters: max_bytes. */
  | "setting_too_long"
  /** The setting's number is too large. Parameters: limit. */
  | "setting_too_large"
  /** The setting's size is out of range. Parameters: min_bytes, max_bytes. */
  | "setting_out_of_range"
  /** The daemon cannot listen on the address. Parameters: address, reason. */
  | "address_unusable"
  /** There is no file at the path. Parameters: path. */
  | "file_not_found"
  /** The path of a folder is a file. Parameters: path. */
  | "folder_is_file"
  /** This machine cannot run the kernel variant. Parameters: kernel. */
  | "kernel_unavailable"
  /** A server of tools is invalid, or the pasted text has none. Parameters: reason. */
  | "tool_server_invalid"
  /** Another server of tools has that name. Parameters: name. */
  | "tool_server_name_taken"
  /** There is no server of tools of that name. Parameters: name. */
  | "tool_server_not_found"
  /** The server of tools is off. Parameters: name. */
  | "tool_server_off"
  /** The server of tools does not start, or does not list its tools. Parameters: reason. */
  | "tool_server_failed"
  /** There are too many servers of tools. Parameters: limit. */
  | "too_many_tool_servers"
  /** The server has no such tool. Parameters: name, tool. */
  | "tool_not_found"
  /** There are too many permissions of tools. */
  | "too_many_tool_permissions"
  /** The folder of the tool that reads files cannot be read. Parameters: reason. */
  | "tool_folder_unreadable"
  /** The stored tools cannot be read. Parameters: path, reason. */
  | "tools_unreadable"
  /** The tools cannot be stored. Parameters: reason. */
  | "tools_unwritable"
  /** `config.toml` cannot be read. Parameters: path, reason. */
  | "config_unreadable"
  /** `config.toml` cannot be written. Parameters: reason. */
  | "config_unwritable"
  /** The request has no model name, or an empty one. */
  | "model_name_missing"
  /** The text is not a model name. Parameters: name. */
  | "model_name_invalid"
  /** There is no model of that name. Parameters: model. */
  | "model_not_found"
  /** The model has no GGUF file. Parameters: model. */
  | "model_has_no_file"
  /** The file cannot be read, or is not a model. Parameters: path, reason. */
  | "model_file_unreadable"
  /** A file of the model is not in the library, or incomplete. Parameters: digest, reason. */
  | "model_file_missing"
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
  /** This version cannot run the model, so it was not downloaded. Parameters: model, reason, size_bytes. */
  | "model_cannot_run"
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
  /** The folder cannot be used for the cache. Parameters: path, reason. */
  | "cache_folder_invalid"
  /** The cache folder cannot be read. Parameters: reason. */
  | "cache_folder_unreadable"
  /** The model cannot think. Parameters: model. */
  | "thinking_unsupported"
  /** An option has an invalid value. Parameters: option, reason. */
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
  /** The answer was ended to make room for another model. Parameters: reason. */
  | "generation_displaced"
  /** There is no such chat. Parameters: chat. */
  | "chat_not_found"
  /** The chat has no such message. Parameters: message. */
  | "message_not_found"
  /** There is no such preset. Parameters: preset. */
  | "preset_not_found"
  /** An answer is being computed in this chat. */
  | "chat_answering"
  /** The chat has no model. */
  | "chat_without_model"
  /** The chat is in the trash. */
  | "chat_in_trash"
  /** The message is empty. */
  | "message_empty"
  /** No call of a tool with this id waits for a decision. Parameters: call. */
  | "tool_call_not_found"
  /** The message cannot be answered or continued. Parameters: message. */
  | "message_not_answerable"
  /** The chats cannot be imported. Parameters: reason. */
  | "chat_import_failed"
  /** The chats cannot be read or written. Parameters: reason. */
  | "chats_unavailable"
  /** A newer version of Cairn wrote the chats. Parameters: path. */
  | "chats_newer_version"
  /** The chat database is damaged; the next request for chats repairs it. Parameters: reason. */
  | "chats_damaged"
  /** The disk has no space left for the chats. */
  | "chats_disk_full"
  /** The chat database or its folder cannot be written. */
  | "chats_read_only"
  /** A damaged chat database was repaired; the damaged file is kept at `path`. Parameters: path, chats, messages, reason. */
  | "chats_repaired"
  /** The file is none of the formats that can be read. */
  | "document_unknown"
  /** An Office document in the format of 1997, or an encrypted one. */
  | "document_old_office"
  /** There is no such collection. Parameters: collection. */
  | "collection_not_found"
  /** The collection has no such document. Parameters: document. */
  | "collection_document_not_found"
  /** The name of a collection is empty or too long. Parameters: limit. */
  | "collection_name_invalid"
  /** A limit of a collection is reached. Parameters: reason. */
  | "collection_full"
  /** The chosen model is not an embedding model. Parameters: model. */
  | "collection_model_invalid"
  /** The daemon stopped while it read a document. */
  | "collection_reading_interrupted"
  /** The collections cannot be read or written. Parameters: reason. */
  | "collections_unavailable"
  /** A newer version of Cairn wrote the collections. Parameters: path. */
  | "collections_newer_version"
  /** The disk has no space left for the collections. */
  | "collections_disk_full"
  /** The document breaks its format. Parameters: reason. */
  | "document_damaged"
  /** The document has a password. */
  | "document_encrypted"
  /** The PDF has only pictures of its pages. Parameters: pages. */
  | "document_has_no_text_layer"
  /** The document has no text. */
  | "document_empty"
  /** The document is too large. Parameters: limit_bytes. */
  | "document_too_large"
  /** The document inflates to too many bytes. Parameters: limit_bytes. */
  | "document_inflates"
  /** The document has too many characters, pages or elements. Parameters: reason. */
  | "document_too_long"
  /** Reading the document took too long. Parameters: seconds. */
  | "document_timeout"
  /** The process that reads the document failed. Parameters: reason. */
  | "document_failed"
  /** Files may still contain chats that were deleted forever; Cairn retries the erasure. Parameters: reason. */
  | "chats_not_erased";

/** The body of an error response, and the last line of a stream that failed. */
export type ErrorBody = {
  /** What went wrong, in English. */
  error: string;
  /** The stable name of the error; absent from other servers. */
  code?: ErrorCode;
  /** The facts of the error by name, as [`ErrorCode`] documents them. `failure` is another code. */
  params?: Record<string, string>;
};

/** How long a model stays loaded after its last request. */
export type KeepAlive = string | number;

/** Request for the next message. Unsupported fields are read too, so that they can be refused. */
export type ChatRequest = {
  model?: string;
  messages?: Message[];
  /** Stream one JSON object per delta; on if absent. */
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
  /** Return the rendered prompt instead of an answer. */
  _debug_render_only?: boolean;
};

/** A message of a conversation, as clients send it. */
export type Message = {
  role: string;
  content: string;
  thinking?: string;
  images?: unknown[];
  tool_calls?: ToolCall[];
  tool_name?: string;
  tool_call_id?: string;
};

/** A delta of the answer, or the whole answer. */
export type ChatChunk = {
  model: string;
  created_at: Timestamp;
  message: ReplyMessage;
  done: boolean;
  done_reason?: DoneReason;
  logprobs?: Logprob[];
  /** Cairn's own field: what was left out because the context was full. */
  truncated?: Truncated;
  /** Cairn's own field: what the request has and the server ignored, and what did not fit into the context. */
  warnings?: string[];
  _debug_info?: DebugInfo;
} & Metrics;

/** The message inside a [`ChatChunk`]. */
export type ReplyMessage = {
  role: string;
  content: string;
  thinking?: string;
  tool_calls?: ToolCall[];
};

/** A tool call of the model. */
export type ToolCall = {
  /** Id of the call. The tool's result may name it. */
  id?: string;
  /** The function and its arguments. */
  function: FunctionCall;
};

/** A function with arguments. */
export type FunctionCall = {
  /** Place of the call in the answer. */
  index: number;
  /** Name of the function. */
  name: string;
  /** The arguments, an object. */
  arguments: unknown;
};

/** The model and its second name. */
export type CopyRequest = {
  /** The model's name. */
  source?: string;
  /** The second name. */
  destination?: string;
};

/** Request to create a model. Unsupported fields are read too, so that they can be refused. */
export type CreateRequest = {
  model?: string;
  /** Name of `model` in older clients. */
  name?: string;
  from?: string;
  /** Names and digests of uploaded files. */
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
  /** Cairn's own field: digest of an uploaded importance matrix, by which the quantization weights its errors. */
  imatrix?: string;
  remote_host?: string;
  /** Fields that override the details of the file. */
  info?: Record<string, unknown>;
  /** Cairn's own field: whether the registry of a missing base may be used over plain HTTP. */
  insecure?: boolean;
  /** Stream one JSON object per step; on if absent. */
  stream?: boolean;
};

/** One licence text, or several. */
export type Licenses =
  /** One. */
  | string
  /** Several. */
  | string[];

/** A step of a long operation. */
export type ProgressLine = {
  /** Name of the step; the last one is `success`. */
  status: string;
  /** Digest of the blob; [`ProgressLine::QUANTISED`] during quantization. */
  digest?: string;
  /** Bytes in total. */
  total?: number;
  /** Bytes completed. */
  completed?: number;
  /** Cairn's own field: problems of the new model, if the response is not streamed. In a stream, each is a line of its own. */
  warnings?: string[];
};

/** The model to delete. */
export type DeleteRequest = {
  /** The model's name. */
  model?: string;
  /** Name of `model` in older clients. */
  name?: string;
};

/** Request for the vectors of texts. */
export type EmbedRequest = {
  /** The model's name. */
  model?: string;
  /** A text or a list of texts. The model is loaded if it is empty. */
  input?: unknown;
  /** Whether texts that do not fit are cut; true if absent. */
  truncate?: boolean;
  /** Elements of each vector; all if absent or 0. */
  dimensions?: number;
  /** How long the model stays loaded afterwards. */
  keep_alive?: KeepAlive;
  /** Options by name. */
  options?: Record<string, unknown>;
};

/** Vectors of length 1, in the order of the texts. */
export type EmbedResponse = {
  model: string;
  embeddings: number[][];
  total_duration: number;
  load_duration: number;
  prompt_eval_count: number;
};

/** Request for the vector of one text. */
export type EmbeddingsRequest = {
  /** The model's name. */
  model?: string;
  /** The text. The model is loaded if it is empty. */
  prompt?: string;
  /** How long the model stays loaded afterwards. */
  keep_alive?: KeepAlive;
  /** Options by name. */
  options?: Record<string, unknown>;
};

/** The vector of one text; empty for an empty text. */
export type EmbeddingsResponse = {
  /** The vector. */
  embedding: number[];
};

/** Request for an answer. Unsupported fields are read too, so that they can be refused. */
export type GenerateRequest = {
  model?: string;
  prompt?: string;
  suffix?: string;
  system?: string;
  template?: string;
  /** Token ids of an earlier answer to continue. */
  context?: number[];
  /** Stream one JSON object per delta; on if absent. */
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
  /** Return the rendered prompt instead of an answer. */
  _debug_render_only?: boolean;
};

/** A delta of the answer, or the whole answer. */
export type GenerateChunk = {
  model: string;
  created_at: Timestamp;
  response: string;
  thinking?: string;
  done: boolean;
  done_reason?: DoneReason;
  /** Token ids of the prompt and the answer, for the next request. */
  context?: number[];
  logprobs?: Logprob[];
  /** Cairn's own field: what was left out because the context was full. */
  truncated?: Truncated;
  /** Cairn's own field: what the request has and the server ignored, and what did not fit into the context. */
  warnings?: string[];
  _debug_info?: DebugInfo;
} & Metrics;

/** A token of an answer, with its log probability. */
export type Logprob = {
  /** The most probable tokens at its place, most probable first; absent unless requested. */
  top_logprobs?: TokenLogprob[];
} & TokenLogprob;

/** A token and its natural log probability. */
export type TokenLogprob = {
  /** Text of the token; incomplete characters are replaced by U+FFFD. */
  token: string;
  /** Natural logarithm of its probability, before temperature and filters. */
  logprob: number;
  /** Bytes of the text, which may end within a character. */
  bytes?: number[];
};

/**
 * Counts and times of one answer, on its last chunk.
 *
 * `prompt_eval_count` is the whole prompt, as clients expect. `prompt_eval_duration` covers only the computed tokens,
 * which are `prompt_eval_count - cached_tokens`.
 */
export type Metrics = {
  total_duration?: number;
  load_duration?: number;
  prompt_eval_count?: number;
  prompt_eval_duration?: number;
  eval_count?: number;
  eval_duration?: number;
  /** Prompt tokens that were found in the cache. Cairn's own field, as all that follow. */
  cached_tokens?: number;
  /** Cached tokens that were restored from the RAM tier. */
  ram_tokens?: number;
  /** Cached tokens that were restored from the SSD tier. */
  ssd_tokens?: number;
  /** Cached tokens that were restored from the remote tier. */
  remote_tokens?: number;
  /** Time of the restores, not included in `prompt_eval_duration`. */
  restore_duration?: number;
  /** Estimated time to compute the restored tokens. */
  recompute_duration?: number;
};

/** All loaded models; the one that expires last is first. */
export type PsResponse = {
  /** The models. */
  models: PsModel[];
};

/** A loaded model. */
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

/** Request to pull a model. `username` and `password` of older clients are ignored. */
export type PullRequest = {
  /** The model's name. */
  model?: string;
  /** Name of `model` in older clients. */
  name?: string;
  /** Whether plain `http` is allowed. */
  insecure?: boolean;
  /** Stream one JSON object per step; on if absent. */
  stream?: boolean;
  /** Addresses of mirrors to try before the registry. Cairn's own field. */
  sources?: string[];
  /** Whether the model is downloaded even if this version cannot run it, for example to share it. Cairn's own field. */
  force?: boolean;
};

/**
 * A step of a pull or push, or progress of one blob. The fields after `completed` are Cairn's own; Ollama's clients
 * ignore them.
 */
export type PullLine = {
  /** Name of the step; the last one is `success`. */
  status: string;
  /** Digest of the blob, `sha256:...`. */
  digest?: string;
  /** Bytes in total. */
  total?: number;
  /** Bytes completed. */
  completed?: number;
  /** Speed. */
  bytes_per_second?: number;
  /** Host of the source. */
  source?: string;
  /** The last error that was handled by a retry or another source. */
  problem?: string;
};

/** Request to push a model. `username` and `password` of older clients are ignored. */
export type PushRequest = {
  /** The model's name. */
  model?: string;
  /** Name of `model` in older clients. */
  name?: string;
  /** Whether plain `http` is allowed. */
  insecure?: boolean;
  /** Stream one JSON object per step; on if absent. */
  stream?: boolean;
};

/** Request for information about a model. */
export type ShowRequest = {
  /** The model's name. */
  model?: string;
  /** Name of `model` in older clients. */
  name?: string;
  /** Include the elements of arrays, for example vocabularies. */
  verbose?: boolean;
};

/** All information about one model. Absent texts are omitted. */
export type ShowResponse = {
  license?: string;
  modelfile?: string;
  parameters?: string;
  template?: string;
  /** Language of the template, and the reason of its choice. Cairn's own field. */
  template_reason?: string;
  /** Why chats with the model fail because of its template. Cairn's own field. */
  template_problem?: string;
  /** Why the model cannot see images although it has a vision tower. Cairn's own field. */
  vision_problem?: string;
  /** Whether the model has no chat template: it gets the plain texts and continues them. Cairn's own field. */
  continues_text?: boolean;
  system?: string;
  details: Details;
  /** Messages that precede every conversation. */
  messages?: Message[];
  model_info: Record<string, unknown>;
  tensors?: ShowTensor[];
  capabilities?: string[];
  modified_at: Timestamp;
  /** Origin of a model that is not in a library. Cairn's own field. */
  origin?: string;
};

/** One tensor of a model's file. */
export type ShowTensor = {
  /** Name of the tensor. */
  name: string;
  /** Type of the tensor, for example `Q4_K`. */
  type: string;
  /** Dimensions, the fastest one first, as in GGUF. */
  shape: number[];
};

/** All models, newest first. */
export type TagsResponse = {
  /** The models. */
  models: TagsModel[];
};

/** A model of the list. */
export type TagsModel = {
  name: string;
  model: string;
  modified_at: Timestamp;
  size: number;
  /** Lower-case hex, without `sha256:`. */
  digest: string;
  details: Details;
  capabilities?: string[];
  /** Origin of a model that is not in a library. Cairn's own field. */
  origin?: string;
  /** Names of the remotes that have the model, if it is not on this machine. Cairn's own field. */
  remotes?: string[];
};

/** Details of a model. */
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

/** `GET /api/version`. */
export type VersionResponse = {
  /** Version of Ollama with this API. Editors refuse older ones. */
  version: string;
  /** Version of Cairn; absent from other servers. */
  cairn?: string;
  /** Id of the daemon's process, in responses to other daemons only: a daemon cannot be its own remote. */
  instance?: string;
};

/** `GET /api/status`. */
export type CloudResponse = {
  /** Models that run in a cloud. */
  cloud: CloudStatus;
};

/** Whether models of a cloud can be used. */
export type CloudStatus = {
  /** Whether they are disabled. */
  disabled: boolean;
  /** What disabled them: `none`, `env`, `config` or `both`. */
  source: string;
};

/** Finish reason of an answer, `done_reason`. */
export type DoneReason =
  /** The model generated an end token or a stop string. */
  | "stop"
  /** The token limit or the end of the context was reached. */
  | "length"
  /** The prompt was empty: the model was loaded. */
  | "load"
  /** The prompt was empty and `keep_alive` 0: the model was unloaded. */
  | "unload";

/** Response to a request with `_debug_render_only`. */
export type DebugInfo = {
  /** The rendered prompt. */
  rendered_template: string;
};

/** Options of a request; `None` if not set. */
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
  adapter_scale?: number;
};

/** The `think` field of a request. */
export type Think = boolean | "low" | "medium" | "high" | "max";

/** A point in time. RFC 3339 cannot express years outside 0..=9999, so they are clamped. */
export type Timestamp = string;

/** Token counts and times of one answer. */
export type Usage = {
  /** Tokens of the prompt, including cached ones. */
  prompt_tokens: number;
  /** Prompt tokens that were found in the cache: restored from tiers, or in pages of the loaded model. */
  cached_tokens: number;
  /** Cached tokens that were restored from the RAM tier. */
  ram_tokens: number;
  /** Cached tokens that were restored from the SSD tier. */
  ssd_tokens: number;
  /** Cached tokens that were restored from the remote tier. */
  remote_tokens: number;
  /** Time of the restores (JSON: milliseconds). */
  restore_ms: number;
  /** Estimated time to compute the restored tokens (JSON: milliseconds). */
  instead_of_ms: number;
  /** Why most of the prompt was computed again: a reason of `POST /app/cache/trace`. */
  recomputed?: string;
  /** Time to load the model (JSON: milliseconds). */
  load_ms: number;
  /** Time to compute the prompt tokens that were not cached (JSON: milliseconds). */
  prompt_ms: number;
  /** Time from the request to the first delta (JSON: milliseconds). */
  first_token_ms: number;
  /** Tokens of the answer, including thinking. */
  answer_tokens: number;
  /** Time to compute the answer (JSON: nanoseconds). */
  answer_ns: number;
  /** Time from the request to the last token (JSON: milliseconds). */
  total_ms: number;
  /** Whether the answer reached its token limit. */
  length_reached: boolean;
  /** Dropped tokens and messages, if the context was full. */
  truncated?: Truncated;
};

/** Tokens and messages that were dropped from a prompt or from an answer's context. */
export type Truncated = {
  /** When tokens were last dropped. */
  reason: Overflow;
  /** Number of dropped turns: a question and all messages before the next question. */
  turns: number;
  /** Number of messages in these turns. */
  messages: number;
  /** All dropped tokens. */
  tokens: number;
  /** Tokens dropped from the middle of remaining messages. They are included in `tokens`. */
  cut_tokens?: number;
  /** Number of dropped images, in dropped turns or in cut messages. The model does not see them. */
  images?: number;
  /** Size of the context. */
  context_tokens: number;
};

/** When the context was full. */
export type Overflow =
  /** Before the answer. */
  | "prompt_too_long"
  /** While the answer was being computed. */
  | "context_full";
