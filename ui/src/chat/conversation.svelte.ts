// One chat as it is shown: the messages of the branch in view, the answer that streams, and what the person does to them.
// The daemon owns all of it; this only watches, and asks.
import * as api from "../api/chats";
import { ApiError } from "../api/client";
import { Streamed } from "./streamed";

const PAGE = 60;
/** Pieces of an answer are shown at most this often: a frame's time and a half, whether or not the window is seen. */
const FLUSH_MS = 24;
/** Two streams of one server may differ by this much. */
const LATE_MS = 200;

export class Conversation {
  chat = $state.raw<api.Chat | undefined>(undefined);
  messages = $state.raw<readonly api.Message[]>([]);
  /** Messages of the branch before the first one here. */
  before = $state(0);
  loading = $state(true);
  /** The chat is not there, or the daemon is not. */
  error = $state.raw<ApiError | undefined>(undefined);
  /** Why the last request was refused; the text that was to be sent stays in the composer. */
  refused = $state.raw<string | undefined>(undefined);
  /** The answer that grows here, by id. */
  answering = $state<string | undefined>(undefined);
  stopping = $state(false);
  #abort = $state.raw<AbortController | undefined>(undefined);
  #closed = false;
  #loadingOlder: Promise<void> | undefined;
  #opening: Promise<void> | undefined;
  /** The last change of the chat, and why it was refused; they are made one after the other. */
  #changing: Promise<ApiError | undefined> = Promise.resolve(undefined);
  #changes = 0;
  #changed = 0;
  /** Counts what was asked for and followed. */
  #turn = 0;
  /** The last request ended without an answer that would tell whether it was heard. */
  #broke = false;

  constructor(
    readonly id: string,
    /** Called when an answer has ended. */
    readonly ended: (answer: api.Message) => void = () => {},
  ) {}

  get busy(): boolean {
    return this.answering !== undefined || this.#abort !== undefined;
  }

  get lastStats(): api.MessageStats | undefined {
    return this.messages.findLast((message) => message.stats !== undefined)?.stats;
  }

  /** Loads it. Whoever asks while it is being loaded waits for the same. */
  open(): Promise<void> {
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Waits until it is loaded, and what was chosen for it is the daemon's too. */
  async ready(): Promise<void> {
    if (this.loading || this.chat === undefined) await this.open();
    if (this.error !== undefined) throw this.error;
    if (this.#changed === this.#changes) return;
    const refused = await this.#changing;
    if (refused !== undefined) throw refused;
  }

  /** The chat, and the end of its branch in view. */
  #load(): Promise<[api.Chat, api.MessagesResponse]> {
    return Promise.all([api.getChat(this.id), api.getMessages(this.id, { limit: PAGE })]);
  }

  async #open(): Promise<void> {
    const changes = this.#changes;
    try {
      const [chat, page] = await this.#load();
      // What was chosen meanwhile is newer.
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

  /** Nobody looks any more. A request that the daemon has not taken yet is let go only when it has. */
  close(): void {
    this.#closed = true;
    if (this.answering !== undefined) this.#abort?.abort();
  }

  #show(page: api.MessagesResponse): void {
    this.messages = page.messages;
    this.before = page.before;
  }

  /** Shows what the daemon has, unless something was said meanwhile: that is shown as it comes, and is not in what was asked for before. */
  async reload(): Promise<void> {
    const [turn, count] = [this.#turn, Math.max(PAGE, this.messages.length)];
    const page = await api.getMessages(this.id, { limit: count });
    if (turn === this.#turn && !this.busy) this.#show(page);
  }

  /** Another window or program changed the chat. */
  async changedElsewhere(summary: api.ChatSummary): Promise<void> {
    const chat = this.chat;
    if (chat === undefined) return;
    // A clock that was wrong leaves a chat younger than anything that is said in it.
    const said = chat.updated_at !== summary.updated_at || chat.messages !== summary.messages || summary.answering;
    this.chat = { ...chat, ...summary };
    if (this.busy || !said) return;
    if (!summary.answering) {
      await this.reload().catch(() => {});
      return;
    }
    // Word of an answer that was shown here comes late at times, right before that of its end.
    await new Promise((resume) => setTimeout(resume, LATE_MS));
    if (this.busy || this.#closed || !this.chat?.answering) return;
    // What is being answered may be new here, or in another branch.
    await this.reload().catch(() => {});
    await this.#attach();
  }

  /** Word of changes may have been missed: the daemon or this window was away. */
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
      // It is away again, and what is here stays.
    }
  }

  /** Messages that come before those here. */
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

  /** Loads back until a message is here, of another branch where it is in one, which is shown from then on. Tells whether it is. */
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

  /** Loads older messages; tells whether some have come. */
  async back(): Promise<boolean> {
    const before = this.before;
    if (before > 0) await this.older();
    return this.before < before;
  }

  /** Says something after what is shown, which another window may have turned away from. */
  async send(message: api.SendRequest): Promise<boolean> {
    const last = this.messages.at(-1);
    const asked = message.parent !== undefined || last === undefined ? message : { ...message, parent: last.id };
    const known = new Set(this.messages.map((one) => one.id));
    if (await this.#follow((signal) => api.sendMessage(this.id, asked, signal))) return true;
    return this.#broke && this.#arrived((one) => one.role === "user" && one.content === message.content && !known.has(one.id));
  }

  /** Whether the daemon has a message although its answer broke off before it said so; it is shown then. */
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

  /** Says something else in place of a message of the user. */
  edit(message: api.Message, content: string): Promise<boolean> {
    return this.send({
      parent: message.parent ?? null,
      content,
      ...(message.images ? { images: message.images } : {}),
      ...(message.files ? { files: message.files } : {}),
    });
  }

  /** Another answer to the question that `answer` answers. */
  regenerate(answer: api.Message, more: Pick<api.AnswerRequest, "model" | "options" | "think"> = {}): Promise<boolean> {
    if (answer.parent === undefined) return Promise.resolve(false);
    return this.#follow((signal) => api.answerAgain(this.id, { message: answer.parent as string, ...more }, signal));
  }

  goOn(answer: api.Message): Promise<boolean> {
    return this.#follow((signal) => api.answerAgain(this.id, { continue: answer.id }, signal));
  }

  async stop(): Promise<void> {
    if (this.answering === undefined || this.stopping) return;
    this.stopping = true;
    try {
      await api.stopAnswer(this.id);
    } catch (error) {
      this.refused = asApiError(error).message;
    } finally {
      this.stopping = false;
    }
  }

  async version(message: api.Message, step: -1 | 1): Promise<void> {
    const wanted = message.versions[message.versions.indexOf(message.id) + step];
    if (wanted === undefined || this.busy) return;
    try {
      this.chat = await api.setHead(this.id, wanted);
      await this.reload();
    } catch (error) {
      this.refused = asApiError(error).message;
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
        this.refused = refused.message;
        return refused;
      } finally {
        this.#changed += 1;
      }
    });
    await this.#changing;
  }

  /** Joins the answer that is said to be computed. It may have ended meanwhile, which is no trouble: then all of it is there. */
  async #attach(): Promise<void> {
    if (await this.#follow((signal) => api.attachAnswer(this.id, signal))) return;
    this.refused = undefined;
    if (!this.#closed) await this.reload().catch(() => {});
  }

  /** Reads an answer to its end. Tells whether the daemon took the request. */
  async #follow(ask: (signal: AbortSignal) => AsyncGenerator<api.ChatLine>): Promise<boolean> {
    if (this.busy) return false;
    const abort = new AbortController();
    this.#abort = abort;
    this.#turn += 1;
    this.refused = undefined;
    this.#broke = false;
    let taken = false;
    let streamed: Streamed | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = (): void => {
      timer = undefined;
      if (streamed?.dirty) this.#put(streamed.message());
    };
    try {
      for await (const line of ask(abort.signal)) {
        taken = true;
        if (this.#closed) {
          abort.abort();
          break;
        }
        if (line.user) this.#append(line.user);
        else if (line.answer) {
          streamed = new Streamed(line.answer, performance.now());
          this.answering = line.answer.id;
          this.#append(line.answer);
        } else if (line.done ?? line.failed) {
          clearTimeout(timer);
          const whole = line.done ?? { ...line.failed!.message, error: line.failed!.message.error ?? line.failed!.error };
          streamed = undefined;
          this.#put(whole);
          this.ended(whole);
        } else if (streamed?.take(line, performance.now())) timer ??= setTimeout(flush, FLUSH_MS);
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        const refused = asApiError(error);
        this.refused = refused.message;
        this.#broke = refused.offline;
      }
    } finally {
      clearTimeout(timer);
      this.#abort = undefined;
      this.answering = undefined;
      this.stopping = false;
    }
    if (streamed !== undefined && !this.#closed) await this.#lost();
    return taken;
  }

  /** The stream broke in the middle; the daemon may be at work still, or have begun anew. */
  async #lost(): Promise<void> {
    for (let wait = 300; wait < 10_000 && !this.#closed; wait *= 2) {
      await new Promise((resume) => setTimeout(resume, wait));
      try {
        const chat = await api.getChat(this.id);
        this.refused = undefined;
        await this.reload();
        this.chat = chat;
        if (chat.answering) await this.#attach();
        return;
      } catch {
        // Not back yet.
      }
    }
  }

  /** A message joins the branch after its parent; what was shown there before is another version. */
  #append(message: api.Message): void {
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
  }
}

function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, String(error));
}
