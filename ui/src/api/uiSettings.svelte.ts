// Settings of the interface itself, `ui.*`. The daemon's table is authoritative for all windows and browsers of a user. The last
// values are also stored in this browser, for the first paint (`boot.js` reads them) and while the daemon is offline.
import { ApiError, get, patch } from "./client";
import type { Setting, SettingsResponse } from "./types";

export interface UiValues {
  theme: "system" | "light" | "dark";
  contrast: "system" | "normal" | "high";
  language: string;
  /** Percent. */
  text_size: number;
  width: "narrow" | "normal" | "full";
  follow: boolean;
  announce: "sentence" | "done" | "off";
  send: "enter" | "mod_enter";
  /** Shortcuts that differ from their defaults, in the format of `shortcuts.svelte.ts`. */
  shortcuts: string;
  /** What closing the window of the desktop app does; unused in a browser. */
  close: "ask" | "tray" | "quit";
  /** Whether the desktop app notifies about finished and failed downloads. */
  notify: boolean;
}
export type UiKey = keyof UiValues;

export const STANDARD: UiValues = {
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
/** Storage key: `{ values, unsent }`. */
export const KEY = "cairn.ui";

/** External effects, replaced in tests. */
export interface UiSettingsApi {
  read: () => Promise<SettingsResponse>;
  write: (change: Record<string, UiValues[UiKey] | null>) => Promise<SettingsResponse>;
  storage: Pick<Storage, "getItem" | "setItem"> | undefined;
}

const wire: UiSettingsApi = {
  read: () => get<SettingsResponse>("/app/settings"),
  write: (change) => patch<SettingsResponse>("/app/settings", change),
  storage: typeof localStorage === "undefined" ? undefined : localStorage,
};

/** The valid settings of a stored or received object. */
function validSettings(found: unknown): Partial<UiValues> {
  if (typeof found !== "object" || found === null) return {};
  const entries = Object.entries(found).filter(([name, value]) => name in STANDARD && typeof value === typeof STANDARD[name as UiKey]);
  return Object.fromEntries(entries) as Partial<UiValues>;
}

/** The setting with the context size of models that are loaded from now on, in tokens. */
const CONTEXT = "engine.context";

export class UiSettings {
  /** Configured context size, where the settings have been read. */
  context = $state<number | undefined>(undefined);
  #values = $state.raw<UiValues>(STANDARD);
  /** Changes that the daemon has not accepted yet. */
  #unsent: Partial<UiValues> = {};
  #writing = 0;

  constructor(private readonly api: UiSettingsApi = wire) {
    try {
      const { values, unsent } = JSON.parse(api.storage?.getItem(KEY) ?? "{}") as { values?: unknown; unsent?: unknown };
      this.#values = { ...STANDARD, ...validSettings(values) };
      this.#unsent = validSettings(unsent);
    } catch {
      // Storage may be blocked or contain something else.
    }
  }

  /** Applies a change by another window of this browser. */
  stored({ key, newValue }: Pick<StorageEvent, "key" | "newValue">): void {
    if (key !== KEY || newValue === null) return;
    try {
      const { values } = JSON.parse(newValue) as { values?: unknown };
      this.#values = { ...this.#values, ...validSettings(values), ...this.#unsent };
    } catch {
      // Another program wrote something else.
    }
  }

  get values(): UiValues {
    return this.#values;
  }

  /** Applies the daemon's table, except for settings that the user has changed since. */
  take(settings: readonly Setting[]): void {
    const context = settings.find((one) => one.key === CONTEXT);
    if (context !== undefined) this.context = Number(context.value ?? context.default) || undefined;
    if (this.#writing > 0) return;
    const rows = settings.filter((one) => one.key.startsWith(GROUP)).map((one) => [one.key.slice(GROUP.length), one] as const);
    // A missing value means the default.
    const values = rows.map(([name, { value }]) => [name, value ?? STANDARD[name as UiKey]] as const);
    this.#keep({ ...this.#values, ...validSettings(Object.fromEntries(values)), ...this.#unsent });
  }

  /** Sends pending changes, then loads the daemon's table and returns it. */
  async load(): Promise<readonly Setting[]> {
    if (Object.keys(this.#unsent).length > 0) await this.#send().catch(() => {});
    const { settings } = await this.api.read();
    this.take(settings);
    return settings;
  }

  /** Changes settings at once, and for all windows once the daemon has accepted them. A refusal reverts the change and throws. */
  async set(change: Partial<UiValues>): Promise<void> {
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
      // Offline, or a server without a session for this tab: retried later. Other refusals are final.
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

  /** Removes sent changes from the pending ones, unless they were changed again meanwhile. */
  #forget(sent: Partial<UiValues>): void {
    this.#unsent = Object.fromEntries(Object.entries(this.#unsent).filter(([name, value]) => sent[name as UiKey] !== value));
  }

  #keep(values: UiValues): void {
    const same = Object.entries(values).every(([name, value]) => this.#values[name as UiKey] === value);
    if (!same) this.#values = values;
    this.#store();
  }

  #store(): void {
    try {
      this.api.storage?.setItem(KEY, JSON.stringify({ values: this.#values, unsent: this.#unsent }));
    } catch {
      // The values apply until the page is closed.
    }
  }
}

export const uiSettings = new UiSettings();
