// State of the chat screen: the shown chat, or a new one. A chat is created with its first message.
import { SvelteMap } from "svelte/reactivity";
import * as api from "../api/chats";
import { cache } from "../api/cache";
import { cacheTotals } from "../api/cache.svelte";
import { uiSettings } from "../api/uiSettings.svelte";
import { models, sameModel } from "../api/models.svelte";
import { activity } from "../api/activity.svelte";
import { t } from "../i18n";
import { sentFiles, splitByVision, type Attachments } from "./attachments";
import { Conversation } from "./conversation.svelte";
import { checkLength, contextTokens, type TooLong } from "./tooLong";
import { reportError } from "../app/reportError";

const MODEL_KEY = "cairn.model";
/** Room for the passages of a collection: five of about 200 tokens, with their names. */
const PASSAGES_TOKENS = 1500;

/** Options of a chat that is not created yet. */
export interface Draft {
  model?: string | undefined;
  system?: string | undefined;
  options: api.Options;
  think?: api.Think | undefined;
  preset?: string | undefined;
  collection?: string | undefined;
  folder?: string | undefined;
  temporary: boolean;
}

/** Text and attachments in a composer. */
export interface Unsent {
  text: string;
  attached: Attachments;
}

/** A message that waits to be sent. */
export interface Starting {
  text: string;
  /** Cancels it, as long as that is possible. */
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
  /** Why a new chat could not be created. */
  refused = $state.raw<unknown>(undefined);
  /** Why the last message was not sent: it is longer than the context. */
  tooLong = $state.raw<TooLong | undefined>(undefined);
  /** The model that the user has chosen to compare with. */
  wantedSecond = $state.raw<string | undefined>(undefined);
  #wanted = $state.raw<string | undefined>(storedModel());
  readonly #unsent = new SvelteMap<string, Unsent>();
  /** Counts navigation: an action started elsewhere does not change what is shown. */
  #visit = $state(0);
  /** Messages being sent, by the chat of their composer. */
  readonly #starting = new SvelteMap<string, Starting>();

  /** The model of the next answer. */
  get model(): string | undefined {
    const chosen = this.conversation ? this.conversation.chat?.model : this.draft.model;
    return chosen ?? models.pick(this.#wanted);
  }

  /** A second model that answers the next message, too. */
  get second(): string | undefined {
    return sameModel(this.wantedSecond, this.model) || models.find(this.wantedSecond) === undefined ? undefined : this.wantedSecond;
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

  /** Id of the collection of documents that messages are answered from. */
  get collection(): string | undefined {
    return this.conversation ? this.conversation.chat?.collection : this.draft.collection;
  }

  get busy(): boolean {
    return this.#starting.has(this.#place) || (this.conversation?.busy ?? false);
  }

  /** The message that is being sent from the shown chat. */
  get waiting(): Starting | undefined {
    return this.#starting.get(this.#place);
  }

  /** Key of the shown composer: a chat, or a new chat, of which there may have been others before. */
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
    this.conversation = new Conversation(id, (answer) => this.#ended(answer), () => this.#began());
    void this.conversation.open();
    // Restores cached data from slow tiers while the user still reads.
    void api.prefetchChat(id).catch(() => {});
  }

  close(): void {
    this.#visit += 1;
    this.refused = undefined;
    this.tooLong = undefined;
    this.conversation?.close();
    this.conversation = undefined;
  }

  begin(draft: Partial<Draft> = {}): void {
    this.#visit += 1;
    this.draft = { options: {}, temporary: false, ...draft };
  }

  /** Unsent text and attachments of a chat. */
  unsent(id: string): Unsent {
    return this.#unsent.get(id) ?? NOTHING;
  }

  keepUnsent(id: string, unsent: Unsent): void {
    const { text, attached } = unsent;
    if (text === "" && attached.files.length + attached.images.length === 0) this.#unsent.delete(id);
    else this.#unsent.set(id, unsent);
  }

  /**
   * Sends the text of the shown chat; creates a new chat first if there is none, and calls `onCreated` with its id if it is still shown. A
   * message sent before the chat or the list of models has loaded waits for them. If it is not accepted, its text returns to the
   * composer. A new chat is
   * removed if its first message is refused, and `onCreated` is called with `undefined`.
   */
  async send(onCreated: (id: string | undefined) => void, { anyLength = false } = {}): Promise<void> {
    if (this.busy) return;
    const [from, place, visit, draft, second] = [this.#shown, this.#place, this.#visit, this.draft, this.second];
    let conversation = this.conversation;
    const { text, attached } = this.unsent(from);
    this.keepUnsent(from, NOTHING);
    this.refused = undefined;
    this.tooLong = undefined;
    let unsent: Unsent = { text, attached };
    let cancel = (): void => {};
    const cancelled = new Promise<undefined>((resolve) => (cancel = () => resolve(undefined)));
    this.#starting.set(place, { text, cancel });
    try {
      const model = await Promise.race([this.#answers(conversation, draft, attached.images.length > 0), cancelled]);
      if (model === undefined) return;
      const { sent, held } = splitByVision(attached, models.can(model, "vision"));
      if (text.trim() === "" && sent.files.length + sent.images.length === 0) return;
      if (!anyLength) {
        const options = (conversation ? conversation.chat?.options : draft.options) ?? {};
        const whole = [...sent.files.map((file) => file.text), text].join("\n");
        const checked = await Promise.race([this.#checkLength(model, options, whole), cancelled]);
        if (checked === undefined) return;
        if (checked !== "fits") {
          if (visit === this.#visit) this.tooLong = checked;
          return;
        }
      }
      this.#starting.set(place, { text });
      conversation ??= await this.#create({ ...draft, model }, visit, onCreated);
      this.#restoreUnsent(conversation.id, { text: "", attached: held });
      unsent = { text, attached: sent };
      this.#starting.delete(place);
      const accepted = await conversation.send({
        content: text,
        model,
        ...(second === undefined ? {} : { compare: second }),
        ...(sent.files.length > 0 ? { files: sentFiles(sent.files) } : {}),
        ...(sent.images.length > 0 ? { images: sent.images.map((image) => image.data) } : {}),
      });
      if (accepted) unsent = NOTHING;
      else if (from === "" && (await this.#removeEmpty(conversation, draft, onCreated))) conversation = undefined;
      else if (conversation !== this.conversation && conversation.refused !== undefined) reportError(conversation.refused);
    } catch (error) {
      if (visit === this.#visit) this.refused = error;
      else reportError(error);
    } finally {
      this.#starting.delete(place);
      this.#restoreUnsent(conversation?.id ?? from, unsent);
    }
  }

  /** Checks whether a message fits into the context. If counting fails, the message is sent. */
  async #checkLength(model: string, options: api.Options, text: string): Promise<TooLong | "fits"> {
    const most = models.find(model)?.details.context_length;
    const room = contextTokens(options, models.contextOf(model, uiSettings.context), most);
    const kept = this.collection === undefined ? 0 : PASSAGES_TOKENS;
    return checkLength(text, room === undefined ? room : Math.max(0, room - kept), most, () => cache.countTokens(model, text, options)).catch(() => "fits");
  }

  /** The model of the answer, once it is known; with images, also once its capabilities are known. */
  async #answers(conversation: Conversation | undefined, draft: Draft, sees: boolean): Promise<string> {
    await conversation?.ready();
    const chosen = conversation ? conversation.chat?.model : draft.model;
    if (chosen === undefined || sees) await models.ready();
    const model = chosen ?? models.pick(this.#wanted);
    if (model === undefined) throw new Error(t("chat.no_model"));
    // Without a description, the images stay in the composer.
    if (sees && !models.can(model, "vision")) await models.describe(model).catch(() => {});
    return model;
  }

  /** Returns a message to the composer, before text written since. */
  #restoreUnsent(chat: string, { text, attached }: Unsent): void {
    const now = this.unsent(chat);
    this.keepUnsent(chat, {
      text: [text, now.text].filter((part) => part !== "").join("\n"),
      attached: { files: [...attached.files, ...now.attached.files], images: [...attached.images, ...now.attached.images] },
    });
  }

  /** Creates a chat and shows it, unless the user has navigated away. Text written meanwhile moves with it. */
  async #create(draft: Draft, visit: number, onCreated: (id: string | undefined) => void): Promise<Conversation> {
    const { temporary, ...rest } = draft;
    const chat = await api.createChat({ ...defined(rest), ...(temporary ? { temporary } : {}) });
    const conversation = new Conversation(chat.id, (answer) => this.#ended(answer), () => this.#began());
    conversation.chat = chat;
    conversation.loading = false;
    if (visit === this.#visit) {
      this.keepUnsent(chat.id, this.unsent(""));
      this.keepUnsent("", NOTHING);
      this.conversation = conversation;
      this.begin();
      onCreated(chat.id);
    }
    return conversation;
  }

  /** Removes a chat with a refused first message. Returns whether its composer is now that of a new chat. */
  async #removeEmpty(conversation: Conversation, draft: Draft, onCreated: (id: undefined) => void): Promise<boolean> {
    const { id, refused } = conversation;
    if (refused === undefined || refused.offline) return false;
    try {
      // The daemon may have stored the message before it failed.
      if ((await api.getChat(id)).message_count > 0) return false;
      await api.deleteChat(id, true);
    } catch {
      return false;
    }
    if (conversation !== this.conversation) {
      reportError(refused);
      return true;
    }
    this.close();
    this.draft = draft;
    this.refused = refused;
    this.#restoreUnsent("", this.unsent(id));
    this.keepUnsent(id, NOTHING);
    onCreated(undefined);
    return true;
  }

  chooseModel(model: string): void {
    this.#wanted = model;
    try {
      localStorage.setItem(MODEL_KEY, model);
    } catch {
      // The choice applies to this page only.
    }
    if (this.conversation) void this.conversation.change({ model });
    else this.draft = { ...this.draft, model };
  }

  change(change: api.ChatChange): void {
    if (this.conversation) void this.conversation.change(change);
    else {
      const { model, system, options, think, preset, collection } = change;
      this.draft = {
        ...this.draft,
        ...(model !== undefined ? { model: model ?? undefined } : {}),
        ...(system !== undefined ? { system: system ?? undefined } : {}),
        ...(options !== undefined ? { options } : {}),
        ...(think !== undefined ? { think: think ?? undefined } : {}),
        ...(preset !== undefined ? { preset: preset ?? undefined } : {}),
        ...(collection !== undefined ? { collection: collection ?? undefined } : {}),
      };
    }
  }

  setOption(name: string, value: unknown): void {
    const options = { ...this.options };
    if (value === undefined) delete options[name];
    else options[name] = value;
    this.change({ options });
  }

  #began(): void {
    void models.refreshLoaded().catch(() => {});
  }

  #ended(answer: api.Message): void {
    activity.answered(answer.usage);
    void models.refreshLoaded().catch(() => {});
    void cacheTotals.refresh().catch(() => {});
  }
}

/** Removes `undefined` values, which the types do not allow. */
function defined(draft: Omit<Draft, "temporary">): api.NewChatRequest {
  return Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined));
}

export const screen = new ChatScreen();
