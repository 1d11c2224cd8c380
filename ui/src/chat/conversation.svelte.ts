// The state of one chat on the screen: the messages of the shown branch, the streaming answer, and the user's actions.
// The daemon owns the data.
import * as api from "../api/chats";
import { ApiError } from "../api/client";
import { otherVersion, withAnswer, type Comparison } from "./comparison";
import { Streamed } from "./streamed";
import { toolChoice } from "./toolChoice.svelte";

const PAGE = 60;
/** Deltas are shown at most this often: one and a half frames. */
const FLUSH_MS = 24;
/** Most delay between two streams of the server. */
const LATE_MS = 200;
/** Longest pause between attempts to reach the daemon. */
const RECONNECT_MS = 5_000;

/** Progress before the first token: of the weights, or of the prompt. */
export interface BeforeAnswer {
  loading?: api.WeightsLoading;
  reading?: api.PromptReading;
}

export class Conversation {
  chat = $state.raw<api.Chat | undefined>(undefined);
  messages = $state.raw<readonly api.Message[]>([]);
  /** Number of messages of the branch before the first loaded one. */
  before = $state(0);
  loading = $state(true);
  /** Why the chat could not be loaded. */
  error = $state.raw<ApiError | undefined>(undefined);
  /** Why the last request was refused; its text stays in the composer. */
  refused = $state.raw<ApiError | undefined>(undefined);
  /** Id of the streaming answer. */
  answering = $state<string | undefined>(undefined);
  stopping = $state(false);
  /** Two answers that are shown side by side. */
  comparison = $state.raw<Comparison | undefined>(undefined);
  /** Progress of the weights and of the prompt, until the answer begins. */
  beforeAnswer = $state.raw<BeforeAnswer>({});
  /** Why the answer with a broken stream cannot be followed: the daemon is away, or has restarted and refuses the session. */
  lost = $state.raw<ApiError | undefined>(undefined);
  /** Ends the pause before the next attempt to reach the daemon. */
  #reconnect = (): void => {};
  #abort = $state.raw<AbortController | undefined>(undefined);
  #closed = false;
  #loadingOlder: Promise<void> | undefined;
  #opening: Promise<void> | undefined;
  /** Result of the last change of the chat; changes are sent one after the other. */
  #changing: Promise<ApiError | undefined> = Promise.resolve(undefined);
  #changes = 0;
  #changed = 0;
  /** Number of followed requests. */
  #turn = 0;
  /** Whether the connection broke before the response began. */
  #broke = false;
  /** When calls of tools were first seen running, by message and call. */
  readonly #running = new Map<string, number>();

  constructor(
    readonly id: string,
    /** Called when an answer has ended. */
    readonly ended: (answer: api.Message) => void = () => {},
    /** Called with the first delta of an answer: its model is loaded. */
    readonly began: () => void = () => {},
  ) {}

  get busy(): boolean {
    return this.answering !== undefined || this.#abort !== undefined;
  }

  get lastUsage(): api.Usage | undefined {
    return this.messages.findLast((message) => message.usage !== undefined)?.usage;
  }

  /** Loads the chat. Calls during loading wait for the same load. */
  open(): Promise<void> {
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Waits until the chat is loaded and its changes are stored. */
  async ready(): Promise<void> {
    if (this.loading || this.chat === undefined) await this.open();
    if (this.error !== undefined) throw this.error;
    if (this.#changed === this.#changes) return;
    const refused = await this.#changing;
    if (refused !== undefined) throw refused;
  }

  /** Requests the chat and the end of the shown branch. */
  #load(): Promise<[api.Chat, api.MessagesResponse]> {
    return Promise.all([api.getChat(this.id), api.getMessages(this.id, { limit: PAGE })]);
  }

  async #open(): Promise<void> {
    const changes = this.#changes;
    try {
      const [chat, page] = await this.#load();
      // A change made meanwhile is newer.
      if (this.chat === undefined || changes === this.#changes) this.chat = chat;
      this.#show(page);
      this.error = undefined;
      if (chat.answering && this.#abort === undefined) void this.#attach();
    } catch (error) {
      this.error = asApiError(error);
    } finally {
      this.loading = false;
    }
  }

  /** Closes the chat. A request that the daemon has not accepted yet is aborted only after that. */
  close(): void {
    this.#closed = true;
    if (this.answering !== undefined) this.#abort?.abort();
  }

  #show(page: api.MessagesResponse): void {
    this.messages = page.messages;
    this.before = page.before;
  }

  /** Shows the daemon's messages, unless an answer began meanwhile: the response is older than that. */
  async reload(): Promise<void> {
    const [turn, count] = [this.#turn, Math.max(PAGE, this.messages.length)];
    const page = await api.getMessages(this.id, { limit: count });
    if (turn === this.#turn && !this.busy) this.#show(page);
  }

  /** Applies a change by another window or program. */
  async changedElsewhere(summary: api.ChatSummary): Promise<void> {
    const chat = this.chat;
    if (chat === undefined) return;
    // After a wrong clock, a chat can have an older time than its messages.
    const hasNewMessages = chat.updated_at !== summary.updated_at || chat.message_count !== summary.message_count || summary.answering;
    this.chat = { ...chat, ...summary };
    if (this.busy || !hasNewMessages) return;
    if (!summary.answering) {
      await this.reload().catch(() => {});
      return;
    }
    // The event of an answer that was shown here may arrive late, right before that of its end.
    await new Promise((resume) => setTimeout(resume, LATE_MS));
    if (this.busy || this.#closed || !this.chat?.answering) return;
    // The question may be new here, or in another branch.
    await this.reload().catch(() => {});
    await this.#attach();
  }

  /** Reloads after a disconnect, because events may have been missed. */
  async missed(): Promise<void> {
    if (this.busy || this.loading || this.#closed) return;
    if (this.chat === undefined) {
      await this.open();
      return;
    }
    try {
      this.chat = await api.getChat(this.id);
      await this.reload();
      if (this.chat.answering) await this.#attach();
    } catch {
      // Offline again: the shown messages stay.
    }
  }

  /** Loads messages before the first loaded one. */
  older(): Promise<void> {
    const first = this.messages[0];
    if (this.before === 0 || first === undefined) return Promise.resolve();
    this.#loadingOlder ??= api
      .getMessages(this.id, { before: first.id, limit: PAGE * 2, leaf: this.messages.at(-1)?.id ?? first.id })
      .then((page) => {
        if (this.messages[0]?.id !== first.id) return;
        this.messages = [...page.messages, ...this.messages];
        this.before = page.before;
      })
      .catch(() => {})
      .finally(() => (this.#loadingOlder = undefined));
    return this.#loadingOlder;
  }

  /** Loads back until a message is loaded; switches to its branch if needed. Returns whether it was found. */
  async reach(message: string): Promise<boolean> {
    const isHere = (): boolean => this.messages.some((one) => one.id === message);
    const look = async (): Promise<boolean> => {
      while (!isHere() && (await this.back()));
      return isHere();
    };
    if ((await look()) || this.busy) return isHere();
    try {
      this.chat = await api.setHead(this.id, message);
      await this.reload();
    } catch {
      return false;
    }
    return look();
  }

  /** Loads older messages; returns whether there were any. */
  async back(): Promise<boolean> {
    const before = this.before;
    if (before > 0) await this.older();
    return this.before < before;
  }

  /** Sends a message after the last shown one, even if another window has switched the branch. */
  async send(message: api.SendRequest): Promise<boolean> {
    const shown = this.messages.at(-1);
    // A message behind two answers continues the first one.
    const last = this.comparison?.answers.some((one) => one.id === shown?.id) ? this.comparison.answers[0] : shown;
    this.comparison = undefined;
    if (message.compare === undefined) return this.#send(message, last);
    const accepted = await this.#send(message, last, message.compare);
    // The daemon has begun the second answer, unless the first one was stopped.
    if (accepted && this.comparison !== undefined && !this.#closed) await this.#followSecond();
    return accepted;
  }

  async #followSecond(): Promise<void> {
    const first = this.comparison?.answers[0];
    if (first?.state !== "stopped") await this.#attach();
    // The second answer may have ended before it was followed.
    if (this.comparison?.answers.length === 1) await this.#loadSecond(this.comparison);
    // After a lost connection, the branch shows what became of them.
    const answers = this.comparison?.answers ?? [];
    if (answers.length < 2 || answers.some((one) => one.state === "answering")) this.comparison = undefined;
    await this.#refreshChat();
  }

  /** Adds the stored second answer to a comparison, if there is one. */
  async #loadSecond(comparison: Comparison): Promise<void> {
    const isOf = (one: api.Message): boolean => one.parent === comparison.question;
    const versions = this.messages.find(isOf)?.versions ?? [];
    const second = versions.findLast((id) => comparison.answers.every((one) => one.id !== id));
    if (second === undefined) return;
    const page = await api.getMessages(this.id, { leaf: second, limit: 1 }).catch(() => undefined);
    const answer = page?.messages.find((one) => one.id === second);
    if (answer !== undefined && this.comparison === comparison) this.comparison = withAnswer(comparison, answer);
  }

  async #send(message: api.SendRequest, last: api.Message | undefined, second?: string): Promise<boolean> {
    const placed = message.parent !== undefined || last === undefined ? message : { ...message, parent: last.id };
    const request = { ...placed, ...toolChoice.request };
    const knownIds = new Set(this.messages.map((one) => one.id));
    if (await this.#follow((signal) => api.sendMessage(this.id, request, signal), second)) return true;
    return this.#broke && this.#arrived((one) => one.role === "user" && one.content === message.content && !knownIds.has(one.id));
  }

  /** Whether the daemon has stored a message although the connection broke before its response; it is shown then. */
  async #arrived(is: (one: api.Message) => boolean): Promise<boolean> {
    try {
      const [chat, page] = await this.#load();
      if (!page.messages.some(is)) return false;
      this.refused = undefined;
      this.chat = chat;
      this.#show(page);
      if (chat.answering && !this.#closed) void this.#attach();
      return true;
    } catch {
      return false;
    }
  }

  /** Replaces a message of the user by a new version. */
  edit(message: api.Message, content: string): Promise<boolean> {
    return this.send({
      parent: message.parent ?? null,
      content,
      ...(message.images ? { images: message.images } : {}),
      ...(message.files ? { files: message.files } : {}),
    });
  }

  /** Generates another answer to the same question. */
  regenerate(answer: api.Message, more: Pick<api.AnswerRequest, "model" | "options" | "think"> = {}): Promise<boolean> {
    if (answer.parent === undefined) return Promise.resolve(false);
    if (!this.busy) this.comparison = undefined;
    return this.#follow((signal) => api.answerAgain(this.id, { message: answer.parent as string, ...more, ...toolChoice.request }, signal));
  }

  continueAnswer(answer: api.Message): Promise<boolean> {
    return this.#follow((signal) => api.answerAgain(this.id, { continue: answer.id, ...toolChoice.request }, signal));
  }

  /** Shows an answer beside another version of it. */
  async compare(answer: api.Message): Promise<void> {
    const other = otherVersion(answer);
    if (other === undefined || answer.parent === undefined || this.busy) return;
    try {
      const { messages } = await api.getMessages(this.id, { leaf: other, limit: 1 });
      const all = [...messages, answer].toSorted((a, b) => (answer.versions ?? []).indexOf(a.id) - (answer.versions ?? []).indexOf(b.id));
      this.comparison = { question: answer.parent, answers: all };
    } catch (error) {
      this.refused = asApiError(error);
    }
  }

  /** Ends the comparison, continues with one of its answers, and makes its model that of the chat. */
  async keep(answer: api.Message): Promise<void> {
    await this.#changeTree(async () => {
      const chat = await api.setHead(this.id, answer.id);
      const { model } = answer;
      return model === undefined || model === chat.model ? chat : api.changeChat(this.id, { model });
    });
  }

  /** Adds an edited version of an answer. Returns whether the daemon accepted it. */
  editAnswer(answer: api.Message, content: string): Promise<boolean> {
    return this.#changeTree(() => api.editAnswer(this.id, answer.id, content));
  }

  /** Deletes a message and all that follow it. Returns what can be restored; `undefined` if it was refused. */
  async remove(message: api.Message): Promise<api.DeletedMessages | undefined> {
    let deleted: api.DeletedMessages | undefined;
    await this.#changeTree(async () => {
      deleted = await api.deleteMessage(this.id, message.id);
      return api.getChat(this.id);
    });
    return deleted;
  }

  restore(deleted: api.DeletedMessages): Promise<boolean> {
    return this.#changeTree(() => api.restoreMessages(this.id, deleted));
  }

  /** Changes messages and shows the chat's branch. */
  async #changeTree(change: () => Promise<api.Chat>): Promise<boolean> {
    if (this.busy) return false;
    this.refused = undefined;
    try {
      this.chat = await change();
    } catch (error) {
      this.refused = asApiError(error);
      return false;
    }
    this.comparison = undefined;
    await this.reload().catch(() => {});
    return true;
  }

  async #refreshChat(): Promise<void> {
    const chat = await api.getChat(this.id).catch(() => undefined);
    if (chat !== undefined) this.chat = chat;
  }

  async stop(): Promise<void> {
    if (this.answering === undefined || this.stopping) return;
    this.stopping = true;
    try {
      await api.stopAnswer(this.id);
    } catch (error) {
      this.refused = asApiError(error);
    } finally {
      this.stopping = false;
    }
  }

  /** Allows or refuses a call that waits. Throws if the daemon does not accept the decision, unless the call waits no more. */
  async decide(call: api.Call, decision: api.CallDecision): Promise<void> {
    try {
      await api.decideCall(this.id, call.id, decision);
    } catch (error) {
      // Another window has decided, or the answer was stopped. The stream has the new state.
      if (asApiError(error).code !== "tool_call_not_found") throw error;
    }
  }

  /** When a call was first seen running here, as `performance.now()`. */
  runningSince(message: api.Message, call: api.Call): number {
    const key = `${message.id} ${call.id}`;
    const since = this.#running.get(key) ?? performance.now();
    this.#running.set(key, since);
    return since;
  }

  async version(message: api.Message, step: -1 | 1): Promise<void> {
    const versions = message.versions ?? [];
    const wanted = versions[versions.indexOf(message.id) + step];
    if (wanted === undefined || this.busy) return;
    this.comparison = undefined;
    try {
      this.chat = await api.setHead(this.id, wanted);
      await this.reload();
    } catch (error) {
      this.refused = asApiError(error);
    }
  }

  async change(change: api.ChatChange): Promise<void> {
    this.#changes += 1;
    this.#changing = this.#changing.then(async () => {
      try {
        this.chat = await api.changeChat(this.id, change);
        return undefined;
      } catch (error) {
        const refused = asApiError(error);
        this.refused = refused;
        return refused;
      } finally {
        this.#changed += 1;
      }
    });
    await this.#changing;
  }

  /** Follows a running answer. If it has ended meanwhile, its text is loaded instead. */
  async #attach(): Promise<void> {
    if (await this.#follow((signal) => api.attachAnswer(this.id, signal))) return;
    this.refused = undefined;
    if (!this.#closed) await this.reload().catch(() => {});
  }

  /** Reads an answer stream to its end. Returns whether the daemon accepted the request. */
  async #follow(ask: (signal: AbortSignal) => AsyncGenerator<api.ChatLine>, second?: string): Promise<boolean> {
    if (this.busy) return false;
    const abort = new AbortController();
    this.#abort = abort;
    this.#turn += 1;
    this.refused = undefined;
    this.#broke = false;
    let accepted = false;
    let streamed: Streamed | undefined;
    let hasBegun = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = (): void => {
      timer = undefined;
      if (streamed?.dirty) this.#put(streamed.message());
    };
    try {
      for await (const line of ask(abort.signal)) {
        accepted = true;
        if (this.#closed) {
          abort.abort();
          break;
        }
        const whole = line.done ?? line.failed;
        if (line.user) {
          this.#append(line.user);
          if (second !== undefined) this.comparison = { question: line.user.id, answers: [], awaited: second };
        } else if (line.answer) {
          streamed = new Streamed(line.answer, performance.now());
          this.answering = line.answer.id;
          this.#append(line.answer);
        } else if (line.loading) {
          this.beforeAnswer = { loading: line.loading };
        } else if (line.reading) {
          this.beforeAnswer = { reading: line.reading };
        } else if (whole) {
          clearTimeout(timer);
          streamed = undefined;
          this.#put(whole);
          this.ended(whole);
        } else if (streamed?.take(line, performance.now())) {
          timer ??= setTimeout(flush, FLUSH_MS);
          if (!hasBegun) this.began();
          this.beforeAnswer = {};
          hasBegun = true;
        }
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        const refused = asApiError(error);
        // A broken answer is reported in its place, as long as the daemon cannot be reached.
        if (streamed === undefined) this.refused = refused;
        this.#broke = refused.offline;
      }
    } finally {
      clearTimeout(timer);
      this.#abort = undefined;
      this.answering = undefined;
      this.stopping = false;
      this.beforeAnswer = {};
    }
    if (streamed !== undefined && !this.#closed) await this.#lost();
    return accepted;
  }

  /** Tries now to reach the daemon. */
  reconnect(): void {
    this.#reconnect();
  }

  /** Recovers from a broken stream; the daemon may still be generating, or have restarted. */
  async #lost(): Promise<void> {
    this.lost = new ApiError(0, "the connection broke");
    try {
      await this.#recover();
    } finally {
      this.lost = undefined;
    }
  }

  async #recover(): Promise<void> {
    for (let wait = 300; !this.#closed; wait = Math.min(RECONNECT_MS, wait * 2)) {
      await new Promise<void>((resume) => {
        this.#reconnect = resume;
        setTimeout(resume, wait);
      });
      // Events of chats, which reconnect as well, may have begun to follow the answer.
      if (this.#closed || this.busy) return;
      try {
        const chat = await api.getChat(this.id);
        this.refused = undefined;
        await this.reload();
        this.chat = chat;
        this.lost = undefined;
        if (chat.answering) await this.#attach();
        return;
      } catch (error) {
        this.lost = asApiError(error);
      }
    }
  }

  /** Appends a message after its parent; messages shown there before are another version. */
  #append(message: api.Message): void {
    if (this.comparison !== undefined) this.comparison = withAnswer(this.comparison, message);
    const at = this.messages.findIndex((one) => one.id === message.id);
    if (at >= 0) {
      this.#put(message);
      return;
    }
    const after = message.parent === undefined ? -1 : this.messages.findLastIndex((one) => one.id === message.parent);
    const kept = message.parent === undefined ? [] : after >= 0 ? this.messages.slice(0, after + 1) : this.messages;
    if (message.parent === undefined) this.before = 0;
    this.messages = [...kept, message];
  }

  #put(message: api.Message): void {
    const at = this.messages.findIndex((one) => one.id === message.id);
    if (at >= 0) this.messages = this.messages.with(at, message);
    if (this.comparison !== undefined) this.comparison = withAnswer(this.comparison, message);
  }
}

function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error));
}
