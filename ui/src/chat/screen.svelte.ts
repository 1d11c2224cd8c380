// What the chat screen shows: a chat, or a new one that nothing was said in yet. A chat is made with its first message.
import { SvelteSet } from "svelte/reactivity";
import * as api from "../api/chats";
import { cacheTotals } from "../api/cache.svelte";
import { models } from "../api/models.svelte";
import { activity } from "../api/activity.svelte";
import { toasts } from "../components";
import { t, told } from "../i18n";
import type { Attachments } from "./attachments";
import { Conversation } from "./conversation.svelte";

const MODEL_KEY = "cairn.model";

/** What a chat that is not made yet is to be. */
export interface Draft {
  model?: string | undefined;
  system?: string | undefined;
  options: api.Options;
  think?: api.Think | undefined;
  preset?: string | undefined;
  folder?: string | undefined;
  temporary: boolean;
}

/** A message that is not sent yet. */
export interface Unsent {
  text: string;
  attached: Attachments;
}

function storedModel(): string | undefined {
  try {
    return localStorage.getItem(MODEL_KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

export class ChatScreen {
  conversation = $state.raw<Conversation | undefined>(undefined);
  draft = $state.raw<Draft>({ options: {}, temporary: false });
  /** A new chat could not be made. */
  refused = $state.raw<string | undefined>(undefined);
  #wanted = $state.raw<string | undefined>(storedModel());
  #unsent = new Map<string, Unsent>();
  #opening: Promise<void> = Promise.resolve();
  /** Chats that a message is on its way to; "" is the one that is not made yet. */
  readonly #starting = new SvelteSet<string>();

  /** The model that answers next. */
  get model(): string | undefined {
    const chosen = this.conversation ? this.conversation.chat?.model : this.draft.model;
    return chosen ?? models.pick(this.#wanted);
  }

  get system(): string | undefined {
    return this.conversation ? this.conversation.chat?.system : this.draft.system;
  }

  get options(): api.Options {
    return (this.conversation ? this.conversation.chat?.options : this.draft.options) ?? {};
  }

  get think(): api.Think | undefined {
    return this.conversation ? this.conversation.chat?.think : this.draft.think;
  }

  get preset(): string | undefined {
    return this.conversation ? this.conversation.chat?.preset : this.draft.preset;
  }

  get busy(): boolean {
    return this.#starting.has(this.#shown) || (this.conversation?.busy ?? false);
  }

  get #shown(): string {
    return this.conversation?.id ?? "";
  }

  /** Shows a chat; `undefined` for a new one. */
  open(id: string | undefined): void {
    if (this.conversation?.id === id) return;
    this.conversation?.close();
    this.refused = undefined;
    if (id === undefined) {
      this.conversation = undefined;
      return;
    }
    this.conversation = new Conversation(id, (answer) => this.#ended(answer));
    this.#opening = this.conversation.open();
    // What is kept far away is on its way while the person still reads.
    void api.prefetchChat(id).catch(() => {});
  }

  close(): void {
    this.conversation?.close();
    this.conversation = undefined;
  }

  begin(draft: Partial<Draft> = {}): void {
    this.draft = { options: {}, temporary: false, ...draft };
  }

  /** What was typed and attached and not sent, by chat: it goes to no other. */
  unsent(id: string): Unsent {
    return this.#unsent.get(id) ?? { text: "", attached: { files: [], images: [] } };
  }

  keepUnsent(id: string, unsent: Unsent): void {
    const { text, attached } = unsent;
    if (text === "" && attached.files.length + attached.images.length === 0) this.#unsent.delete(id);
    else this.#unsent.set(id, unsent);
  }

  /**
   * Sends; makes the chat first where there is none, and tells its id once the daemon has it. Whoever is faster than the chat that
   * opens or the list of models is sent as soon as these have come.
   */
  async send(message: api.SendRequest, made: (id: string) => void): Promise<boolean> {
    if (this.busy) return false;
    let conversation = this.conversation;
    let model = conversation ? undefined : this.draft.model;
    const chat = this.#shown;
    this.#starting.add(chat);
    this.refused = undefined;
    try {
      if (conversation) {
        await this.#opening;
        if (conversation.error) throw conversation.error;
        model = conversation.chat?.model;
      }
      if (model === undefined && !models.known) await models.refresh();
      model ??= models.pick(this.#wanted);
      if (model === undefined) throw new Error(t("chat.no_model"));
      conversation ??= await this.#make(model, made);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (this.#shown === chat) this.refused = why;
      else toasts.error(told(why));
      return false;
    } finally {
      this.#starting.delete(chat);
    }
    return conversation.send({ ...message, model });
  }

  /** Makes the chat that the draft says, and shows it unless another one has been opened meanwhile. */
  async #make(model: string, made: (id: string) => void): Promise<Conversation> {
    const { temporary, ...rest } = this.draft;
    const chat = await api.createChat({ ...defined(rest), model, ...(temporary ? { temporary } : {}) });
    const conversation = new Conversation(chat.id, (answer) => this.#ended(answer));
    conversation.chat = chat;
    conversation.loading = false;
    if (this.conversation === undefined) {
      this.conversation = conversation;
      this.begin();
      made(chat.id);
    }
    return conversation;
  }

  chooseModel(model: string): void {
    this.#wanted = model;
    try {
      localStorage.setItem(MODEL_KEY, model);
    } catch {
      // The choice holds for this page.
    }
    if (this.conversation) void this.conversation.change({ model });
    else this.draft = { ...this.draft, model };
  }

  change(change: api.ChatChange): void {
    if (this.conversation) void this.conversation.change(change);
    else {
      const { model, system, options, think, preset } = change;
      this.draft = {
        ...this.draft,
        ...(model !== undefined ? { model: model ?? undefined } : {}),
        ...(system !== undefined ? { system: system ?? undefined } : {}),
        ...(options !== undefined ? { options } : {}),
        ...(think !== undefined ? { think: think ?? undefined } : {}),
        ...(preset !== undefined ? { preset: preset ?? undefined } : {}),
      };
    }
  }

  setOption(name: string, value: unknown): void {
    const options = { ...this.options };
    if (value === undefined) delete options[name];
    else options[name] = value;
    this.change({ options });
  }

  #ended(answer: api.Message): void {
    activity.answered(answer.stats);
    void models.refreshLoaded().catch(() => {});
    void cacheTotals.refresh().catch(() => {});
  }
}

/** Without what is `undefined`, which JSON would leave out anyway but types do not allow. */
function defined(draft: Omit<Draft, "temporary">): api.NewChatRequest {
  return Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined));
}

export const screen = new ChatScreen();
