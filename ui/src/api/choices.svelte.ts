// Settings of the interface itself, `ui.*`. The daemon's table is their truth, for all windows and browsers of its user. What
// was known last is kept in this browser: it holds for the first paint (`boot.js` reads it) and while no daemon answers.
import { ApiError, get, patch } from "./client";
import type { Setting, SettingsResponse } from "./types";

export interface Choices {
  theme: "system" | "light" | "dark";
  contrast: "system" | "normal" | "high";
  language: string;
  /** Per cent. */
  text_size: number;
  width: "narrow" | "normal" | "full";
  follow: boolean;
  announce: "sentence" | "done" | "off";
  send: "enter" | "mod_enter";
  /** Those that are other than usual, as `shortcuts.svelte.ts` writes them. */
  shortcuts: string;
  /** What closing the desktop app's window does; a browser has none. */
  close: "ask" | "tray" | "quit";
  /** Whether the desktop app tells of a download's end, and of trouble with one. */
  notify: boolean;
}
export type Choice = keyof Choices;

export const STANDARD: Choices = {
  theme: "system",
  contrast: "system",
  language: "system",
  text_size: 100,
  width: "normal",
  follow: true,
  announce: "sentence",
  send: "enter",
  shortcuts: "",
  close: "ask",
  notify: true,
};

const GROUP = "ui.";
/** Where this browser keeps them: `{ values, unsent }`. */
export const KEY = "cairn.ui";

/** What reaches outside, so that tests can stand in for it. */
export interface ChoicesApi {
  read: () => Promise<SettingsResponse>;
  write: (change: Record<string, Choices[Choice] | null>) => Promise<SettingsResponse>;
  storage: Pick<Storage, "getItem" | "setItem"> | undefined;
}

const wire: ChoicesApi = {
  read: () => get<SettingsResponse>("/app/settings"),
  write: (change) => patch<SettingsResponse>("/app/settings", change),
  storage: typeof localStorage === "undefined" ? undefined : localStorage,
};

/** Of anything that was stored or sent, the choices that are some. */
function known(found: unknown): Partial<Choices> {
  if (typeof found !== "object" || found === null) return {};
  const entries = Object.entries(found).filter(([name, value]) => name in STANDARD && typeof value === typeof STANDARD[name as Choice]);
  return Object.fromEntries(entries) as Partial<Choices>;
}

export class UiChoices {
  #values = $state.raw<Choices>(STANDARD);
  /** Chosen, and not yet taken by a daemon. */
  #unsent: Partial<Choices> = {};
  #writing = 0;

  constructor(private readonly api: ChoicesApi = wire) {
    try {
      const { values, unsent } = JSON.parse(api.storage?.getItem(KEY) ?? "{}") as { values?: unknown; unsent?: unknown };
      this.#values = { ...STANDARD, ...known(values) };
      this.#unsent = known(unsent);
    } catch {
      // Storage may be forbidden, or hold what is none of ours.
    }
  }

  get now(): Choices {
    return this.#values;
  }

  /** Takes over what the daemon's table says, but for what the person chose since. */
  take(settings: readonly Setting[]): void {
    if (this.#writing > 0) return;
    const told = settings.filter((one) => one.key.startsWith(GROUP)).map((one) => [one.key.slice(GROUP.length), one] as const);
    // A default that is no value is told as none.
    const values = told.map(([name, { value }]) => [name, value ?? STANDARD[name as Choice]] as const);
    this.#keep({ ...this.#values, ...known(Object.fromEntries(values)), ...this.#unsent });
  }

  /** Asks the daemon; gives it first what it has not heard of. Tells its table. */
  async load(): Promise<readonly Setting[]> {
    if (Object.keys(this.#unsent).length > 0) await this.#send().catch(() => {});
    const { settings } = await this.api.read();
    this.take(settings);
    return settings;
  }

  /** Chooses: at once here, and for all windows as soon as the daemon has it. A refusal is thrown, and what held before holds. */
  async set(change: Partial<Choices>): Promise<void> {
    this.#unsent = { ...this.#unsent, ...change };
    this.#keep({ ...this.#values, ...change });
    await this.#send();
  }

  async #send(): Promise<void> {
    const sent = this.#unsent;
    this.#writing += 1;
    let table: SettingsResponse | undefined;
    try {
      table = await this.api.write(Object.fromEntries(Object.entries(sent).map(([name, value]) => [GROUP + name, value === "" ? null : value])));
      this.#forget(sent);
    } catch (error) {
      // Nobody there, or a server that does not know this tab: it is told later. What else is refused is refused for good.
      if (!(error instanceof ApiError) || error.offline || error.status === 401 || error.status >= 500) return;
      this.#forget(sent);
      table = await this.api.read().catch(() => undefined);
      throw error;
    } finally {
      this.#writing -= 1;
      this.#store();
      if (table) this.take(table.settings);
    }
  }

  /** What was sent is no longer to be sent, unless it was chosen anew meanwhile. */
  #forget(sent: Partial<Choices>): void {
    this.#unsent = Object.fromEntries(Object.entries(this.#unsent).filter(([name, value]) => sent[name as Choice] !== value));
  }

  #keep(values: Choices): void {
    const same = Object.entries(values).every(([name, value]) => this.#values[name as Choice] === value);
    if (!same) this.#values = values;
    this.#store();
  }

  #store(): void {
    try {
      this.api.storage?.setItem(KEY, JSON.stringify({ values: this.#values, unsent: this.#unsent }));
    } catch {
      // The choice holds until the page is closed.
    }
  }
}

export const choices = new UiChoices();
