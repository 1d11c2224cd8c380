// Search for models to pull. Nobody outside is asked before somebody searches: until then our own catalogue is shown.
import { downloads, type DownloadsApi } from "../../api/downloads";
import type { DiscoveredModel, DiscoveredVariant } from "../../api/types";
import { judge, type Fit, type Room } from "./fit";
import { readPasted } from "./paste";
import { named, type Role } from "./quants";
import { said } from "../../i18n";

export type Sort = "found" | "popular" | "small";

/** A model on a card, and the variant that is chosen of it. */
export interface Card {
  model: DiscoveredModel;
  choices: { role: Role; variant: DiscoveredVariant }[];
  chosen: DiscoveredVariant | undefined;
  fit: Fit | undefined;
}

export class Discover {
  words = $state("");
  found = $state.raw<DiscoveredModel[] | undefined>(undefined);
  trouble = $state<string | undefined>(undefined);
  error = $state<string | undefined>(undefined);
  busy = $state(false);
  /** What was searched for last; empty while the catalogue is shown. */
  searched = $state("");
  fitsFirst = $state(true);
  task = $state("");
  sort = $state<Sort>("found");
  room = $state.raw<Room | undefined>(undefined);
  contextTokens = $state(4096);
  /** What the disk of the library has left, where that is known. */
  freeBytes = $state<number | undefined>(undefined);
  /** Chosen variants, by the title of their model. */
  chosen = $state.raw<Record<string, string>>({});
  /** Names that were asked for a moment ago and are not in the queue yet. */
  asked = $state.raw<readonly string[]>([]);
  /** The name that a link brought: it is one, whatever it looks like. */
  #linked = $state("");
  #abort: AbortController | undefined;

  constructor(private readonly api: DownloadsApi = downloads) {}

  /** Shows what pulling this name would ask of whom. Anybody can write a link, so no more is done. */
  follow(name: string): void {
    this.words = name;
    this.#linked = name;
  }

  /** The name that was pasted, where it is one. */
  get pasted(): string | undefined {
    if (this.#linked !== "" && this.words === this.#linked) return this.#linked;
    const read = readPasted(this.words);
    return read.kind === "name" ? read.name : undefined;
  }

  /** Shows the catalogue that comes with Cairn. */
  catalogue(): Promise<void> {
    return this.#ask("", true);
  }

  /** Searches for the words everywhere. */
  search(): Promise<void> {
    const words = this.words.trim();
    if (this.pasted !== undefined) return Promise.resolve();
    return this.#ask(words, words === "");
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
    const order = { fits: 0, loaded: 0, slow: 1, unknown: 2, too_big: 3 };
    if (this.fitsFirst) cards.sort((a, b) => order[a.fit?.verdict ?? "unknown"] - order[b.fit?.verdict ?? "unknown"]);
    return cards;
  }

  choose(title: string, name: string): void {
    this.chosen = { ...this.chosen, [title]: name };
  }

  judge(variant: DiscoveredVariant): Fit {
    return judge(variant.size, {}, this.contextTokens, this.room);
  }

  /** Whether the disk has room for it; what is not known is no hindrance. */
  hasRoom(variant: DiscoveredVariant): boolean {
    return this.freeBytes === undefined || variant.size <= this.freeBytes;
  }

  /** Puts a model into the queue. */
  async pull(name: string): Promise<boolean> {
    this.asked = [...this.asked, name];
    try {
      await this.api.add(name);
      this.error = undefined;
      return true;
    } catch (error) {
      this.error = said(error);
      return false;
    } finally {
      this.asked = this.asked.filter((one) => one !== name);
    }
  }

  #card(model: DiscoveredModel): Card {
    const choices = named(model.variants);
    const wanted = this.chosen[model.title];
    const fitting = choices.filter(({ variant }) => this.judge(variant).verdict === "fits");
    const best = (fitting.findLast(({ variant }) => this.hasRoom(variant)) ?? fitting.at(-1))?.variant;
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
      this.trouble = answer.trouble;
      this.searched = words;
      this.error = undefined;
      if (!this.tasks.includes(this.task)) this.task = "";
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = said(error);
    } finally {
      if (this.#abort === abort) this.busy = false;
    }
  }
}
