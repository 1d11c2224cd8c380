// Search for models to pull. Until the user searches, only the built-in catalogue is shown and no host is contacted.
import { downloads, type DownloadsApi } from "../../api/downloads";
import { isGoodDefault } from "../../api/hardware";
import type { DiscoveredModel, DiscoveredVariant } from "../../api/types";
import { answersSlowly, judge, type Fit, type Room } from "./fit";
import { readPasted } from "./paste";
import { named, type Role } from "./quants";

export type Sort = "found" | "popular" | "small";

/** A model card with its chosen variant. */
export interface Card {
  model: DiscoveredModel;
  choices: { role: Role; variant: DiscoveredVariant }[];
  chosen: DiscoveredVariant | undefined;
  fit: Fit | undefined;
}

export class Discover {
  words = $state("");
  found = $state.raw<DiscoveredModel[] | undefined>(undefined);
  problem = $state<string | undefined>(undefined);
  error = $state.raw<unknown>(undefined);
  busy = $state(false);
  /** The last query; empty while the catalogue is shown. */
  searched = $state("");
  fitsFirst = $state(true);
  task = $state("");
  sort = $state<Sort>("found");
  room = $state.raw<Room | undefined>(undefined);
  contextTokens = $state(4096);
  /** Free space on the library's disk, where known. */
  freeBytes = $state<number | undefined>(undefined);
  /** Chosen variants by the title of their model. */
  chosen = $state.raw<Record<string, string>>({});
  /** Names that were requested and are not in the queue yet. */
  requested = $state.raw<readonly string[]>([]);
  /** The model name of a followed link. */
  #linked = $state("");
  #abort: AbortController | undefined;

  constructor(private readonly api: DownloadsApi = downloads) {}

  /** Shows the model of a link. Links are untrusted, so nothing is downloaded. */
  follow(name: string): void {
    this.words = name;
    this.#linked = name;
  }

  /** The pasted model name, if the text is one. */
  get pasted(): string | undefined {
    if (this.#linked !== "" && this.words === this.#linked) return this.#linked;
    const read = readPasted(this.words);
    return read.kind === "name" ? read.name : undefined;
  }

  /** Shows the built-in catalogue. */
  catalogue(): Promise<void> {
    return this.#ask("", true);
  }

  /** Requests the catalogue again if it has no speeds because the daemon was measuring. A search is not repeated: it asks others. */
  async speedsChanged(): Promise<void> {
    if (this.found !== undefined && this.searched === "" && !this.busy) await this.#ask("", true);
  }

  /** Searches everywhere for the words. */
  search(): Promise<void> {
    const words = this.words.trim();
    if (this.pasted !== undefined) return Promise.resolve();
    return this.#ask(words, words === "");
  }

  /** Whether only the built-in catalogue answered. */
  get offline(): boolean {
    return this.problem !== undefined && !(this.found ?? []).some((model) => model.from === "hugging_face");
  }

  get tasks(): string[] {
    return [...new Set((this.found ?? []).flatMap((model) => model.tasks ?? []))].sort();
  }

  get cards(): Card[] {
    const cards = (this.found ?? [])
      .filter((model) => !this.task || model.tasks?.includes(this.task))
      .map((model) => this.#card(model));
    const size = (card: Card) => card.model.variants.find((variant) => variant.size > 0)?.size ?? Infinity;
    if (this.sort === "popular") cards.sort((a, b) => (b.model.downloads ?? 0) - (a.model.downloads ?? 0));
    if (this.sort === "small") cards.sort((a, b) => size(a) - size(b));
    const order = { fits: 0, loaded: 0, slow: 2, unknown: 3, too_big: 4, missing: 4 };
    const rank = ({ fit }: Card) => (fit && answersSlowly(fit) ? 1 : order[fit?.verdict ?? "unknown"]);
    if (this.fitsFirst) cards.sort((a, b) => rank(a) - rank(b));
    return cards;
  }

  choose(title: string, name: string): void {
    this.chosen = { ...this.chosen, [title]: name };
  }

  judge(variant: DiscoveredVariant): Fit {
    return judge(variant.size, {}, this.contextTokens, this.room, variant.speed);
  }

  /** Whether the disk has enough space, as far as known. */
  hasRoom(variant: DiscoveredVariant): boolean {
    return this.freeBytes === undefined || variant.size <= this.freeBytes;
  }

  /** Adds a model to the queue. */
  async pull(name: string): Promise<boolean> {
    this.requested = [...this.requested, name];
    try {
      await this.api.add(name);
      this.error = undefined;
      return true;
    } catch (error) {
      this.error = error;
      return false;
    } finally {
      this.requested = this.requested.filter((one) => one !== name);
    }
  }

  #card(model: DiscoveredModel): Card {
    const choices = named(model.variants);
    const wanted = this.chosen[model.title];
    const suitable = choices.filter(({ variant }) => isGoodDefault(variant, this.room));
    const best = (suitable.findLast(({ variant }) => this.hasRoom(variant)) ?? suitable.at(-1))?.variant;
    const chosen = model.variants.find((variant) => variant.name === wanted) ?? best ?? choices[0]?.variant ?? model.variants[0];
    return { model, choices, chosen, fit: chosen && this.judge(chosen) };
  }

  async #ask(words: string, own: boolean): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = true;
    try {
      const answer = await this.api.discover(words, own, abort.signal);
      if (abort.signal.aborted) return;
      this.found = answer.models;
      this.problem = answer.problem;
      this.searched = words;
      this.error = undefined;
      if (!this.tasks.includes(this.task)) this.task = "";
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = error;
    } finally {
      if (this.#abort === abort) this.busy = false;
    }
  }
}
