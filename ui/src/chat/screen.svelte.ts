// What the chat screen shows: a chat, or a new one that nothing was said in yet. A chat is made with its first message.
import { SvelteMap } from "svelte/reactivity";
import * as api from "../api/chats";
import { cacheTotals } from "../api/cache.svelte";
import { models } from "../api/models.svelte";
import { reason } from "../api/reason";
import { activity } from "../api/activity.svelte";
import { toasts } from "../components";
import { t, told } from "../i18n";
import { parted, type Attachments } from "./attachments";
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

/** A message that waits to be sent. */
export interface Starting {
  text: string;
  /** Takes it back, as long as that can be done. */
  cancel?: () => void;
}

const NOTHING: Unsent = { text: "", attached: { files: [], images: [] } };

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
  readonly #unsent = new SvelteMap<string, Unsent>();
  /** Counts where the person goes: what was begun somewhere else does not change what is shown. */
  #visit = $state(0);
  /** Messages that are on their way, by the place that they come from. */
  readonly #starting = new SvelteMap<string, Starting>();

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
    return this.#starting.has(this.#place) || (this.conversation?.busy ?? false);
  }

  /** What is on its way from where the person is, and nobody has heard of yet. */
  get waiting(): Starting | undefined {
    return this.#starting.get(this.#place);
  }

  /** Where something is written: a chat, or a new one, of which there may have been others before. */
  get #place(): string {
    return this.conversation?.id ?? `new ${this.#visit}`;
  }

  get #shown(): string {
    return this.conversation?.id ?? "";
  }

  /** Shows a chat; `undefined` for a new one. */
  open(id: string | undefined): void {
    if (this.conversation?.id === id) return;
    this.close();
    if (id === undefined) return;
    this.conversation = new Conversation(id, (answer) => this.#ended(answer));
    void this.conversation.open();
    // What is kept far away is on its way while the person still reads.
    void api.prefetchChat(id).catch(() => {});
  }

  close(): void {
    this.#visit += 1;
    this.refused = undefined;
    this.conversation?.close();
    this.conversation = undefined;
  }

  begin(draft: Partial<Draft> = {}): void {
    this.#visit += 1;
    this.draft = { options: {}, temporary: false, ...draft };
  }

  /** What was typed and attached and not sent, by chat: it goes to no other. */
  unsent(id: string): Unsent {
    return this.#unsent.get(id) ?? NOTHING;
  }

  keepUnsent(id: string, unsent: Unsent): void {
    const { text, attached } = unsent;
    if (text === "" && attached.files.length + attached.images.length === 0) this.#unsent.delete(id);
    else this.#unsent.set(id, unsent);
  }

  /**
   * Sends what is written in the chat that is shown; makes the chat first where there is none, and tells its id if it is shown. Whoever is
   * faster than the chat that opens or the list of models is sent as soon as these have come; what is not taken comes back where it was
   * written.
   */
  async send(made: (id: string) => void): Promise<void> {
    if (this.busy) return;
    const [from, place, visit, draft] = [this.#shown, this.#place, this.#visit, this.draft];
    let conversation = this.conversation;
    const { text, attached } = this.unsent(from);
    this.keepUnsent(from, NOTHING);
    this.refused = undefined;
    let back: Unsent = { text, attached };
    let letGo = (): void => {};
    const cancelled = new Promise<undefined>((resolve) => (letGo = () => resolve(undefined)));
    this.#starting.set(place, { text, cancel: letGo });
    try {
      const model = await Promise.race([this.#answers(conversation, draft, attached.images.length > 0), cancelled]);
      if (model === undefined) return;
      this.#starting.set(place, { text });
      const { sent, kept } = parted(attached, models.can(model, "vision"));
      if (text.trim() === "" && sent.files.length + sent.images.length === 0) return;
      conversation ??= await this.#make({ ...draft, model }, visit, made);
      this.#giveBack(conversation.id, { text: "", attached: kept });
      back = { text, attached: sent };
      this.#starting.delete(place);
      const taken = await conversation.send({
        content: text,
        model,
        ...(sent.files.length > 0 ? { files: sent.files } : {}),
        ...(sent.images.length > 0 ? { images: sent.images.map((image) => image.data) } : {}),
      });
      if (taken) back = NOTHING;
      else if (conversation !== this.conversation && conversation.refused !== undefined) toasts.error(told(conversation.refused));
    } catch (error) {
      const why = reason(error);
      if (visit === this.#visit) this.refused = why;
      else toasts.error(told(why));
    } finally {
      this.#starting.delete(place);
      this.#giveBack(conversation?.id ?? from, back);
    }
  }

  /** The model that is to answer, once that is known; and whether it sees, where there is something to see. */
  async #answers(conversation: Conversation | undefined, draft: Draft, sees: boolean): Promise<string> {
    await conversation?.ready();
    const chosen = conversation ? conversation.chat?.model : draft.model;
    if (chosen === undefined || sees) await models.ready();
    const model = chosen ?? models.pick(this.#wanted);
    if (model === undefined) throw new Error(t("chat.no_model"));
    return model;
  }

  /** What was not taken, before what was written since. */
  #giveBack(chat: string, { text, attached }: Unsent): void {
    const now = this.unsent(chat);
    this.keepUnsent(chat, {
      text: [text, now.text].filter((part) => part !== "").join("\n"),
      attached: { files: [...attached.files, ...now.attached.files], images: [...attached.images, ...now.attached.images] },
    });
  }

  /** Makes the chat that a draft says, and shows it unless its person has gone elsewhere. What was written meanwhile goes with it. */
  async #make(draft: Draft, visit: number, made: (id: string) => void): Promise<Conversation> {
    const { temporary, ...rest } = draft;
    const chat = await api.createChat({ ...defined(rest), ...(temporary ? { temporary } : {}) });
    const conversation = new Conversation(chat.id, (answer) => this.#ended(answer));
    conversation.chat = chat;
    conversation.loading = false;
    if (visit === this.#visit) {
      this.keepUnsent(chat.id, this.unsent(""));
      this.keepUnsent("", NOTHING);
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
