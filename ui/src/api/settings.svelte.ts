// `/app/settings`: the table as it holds, and one draft of changes to it, which is written whole or not at all.
import { choices } from "./choices.svelte";
import { ApiError, get, patch } from "./client";
import type { Setting, SettingsRefused, SettingsResponse } from "./types";

/** A value as it is edited; `null` goes back to the default. */
export type Value = boolean | number | string | null;

/** The two requests, so that tests can answer them. */
export interface SettingsApi {
  read: () => Promise<SettingsResponse>;
  write: (change: Record<string, Value>) => Promise<SettingsResponse>;
}

const wire: SettingsApi = {
  read: () => get<SettingsResponse>("/app/settings"),
  write: (change) => patch<SettingsResponse>("/app/settings", change),
};

/** Settings on a screen: what holds, what was changed and not yet written, and what is wrong with that. */
export class SettingsTable {
  table = $state.raw<SettingsResponse | undefined>(undefined);
  error = $state.raw<ApiError | undefined>(undefined);
  saving = $state(false);
  /** Changes by key that are not written. */
  draft = $state.raw<Record<string, Value>>({});
  /** Why they cannot be written, by key; of no key, under the empty one. */
  wrong = $state.raw<Record<string, string>>({});
  /** What was there before the last change, to go back to. */
  before = $state.raw<Record<string, Value> | undefined>(undefined);
  /** Beginnings and ends of writing. */
  #writes = 0;

  constructor(
    private readonly api: SettingsApi = wire,
    /** Hears of every table: what it says of the interface holds at once. */
    private readonly heard: (table: SettingsResponse) => void = (table) => choices.take(table.settings),
  ) {}

  async load(): Promise<void> {
    const writes = this.#writes;
    try {
      const table = await this.api.read();
      // What was written meanwhile is told by its own answer, which is newer.
      if (writes === this.#writes) this.#show(table);
      this.error = undefined;
    } catch (error) {
      this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
  }

  #show(table: SettingsResponse): void {
    this.table = table;
    this.heard(table);
  }

  find(key: string): Setting | undefined {
    return this.table?.settings.find((setting) => setting.key === key);
  }

  /** What a field shows: the draft, else what holds. */
  shown(setting: Setting): Value {
    const drafted = this.draft[setting.key];
    return drafted !== undefined ? drafted : (setting.value ?? null);
  }

  /** The environment and the command line go before what is set here. */
  locked(setting: Setting): boolean {
    return setting.origin === "environment" || setting.origin === "flag";
  }

  set(key: string, value: Value): void {
    const setting = this.find(key);
    const same = setting && value === (setting.origin === "default" ? null : (setting.value ?? null));
    this.draft = same ? without(this.draft, [key]) : { ...this.draft, [key]: value };
    this.wrong = without(this.wrong, [key, ""]);
  }

  get dirty(): boolean {
    return Object.keys(this.draft).length > 0;
  }

  /** Takes back a draft that was refused. */
  forget(key: string): void {
    this.draft = without(this.draft, [key]);
    this.wrong = without(this.wrong, [key, ""]);
  }

  /** Changes a setting at once. False when it was refused; the draft stays, with the reason beside it. */
  async put(key: string, value: Value): Promise<boolean> {
    this.set(key, value);
    return this.save([key]);
  }

  /** Writes drafts, of some keys or all. False when they were refused; then `wrong` says why, by key. */
  async save(keys: readonly string[] = Object.keys(this.draft)): Promise<boolean> {
    const change = Object.fromEntries(keys.flatMap((key) => (key in this.draft ? [[key, this.draft[key] ?? null]] : [])));
    if (Object.keys(change).length === 0) return true;
    const before = Object.fromEntries(
      Object.keys(change).map((key) => {
        const setting = this.find(key);
        return [key, setting?.origin === "file" ? (setting.value ?? null) : null];
      }),
    );
    this.saving = true;
    this.#writes += 1;
    try {
      this.#show(await this.api.write(change));
      this.draft = without(this.draft, Object.keys(change));
      this.wrong = without(this.wrong, ["", ...Object.keys(change)]);
      this.before = before;
      return true;
    } catch (error) {
      this.wrong = { ...this.wrong, ...reasons(error) };
      return false;
    } finally {
      this.saving = false;
      this.#writes += 1;
    }
  }

  /** Writes what was there before the last change. */
  async undo(): Promise<boolean> {
    if (!this.before) return false;
    this.draft = { ...this.draft, ...this.before };
    const done = await this.save(Object.keys(this.before));
    if (done) this.before = undefined;
    return done;
  }
}

function without<T>(all: Record<string, T>, keys: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(all).filter(([key]) => !keys.includes(key)));
}

function reasons(error: unknown): Record<string, string> {
  if (!(error instanceof ApiError)) return { "": String(error) };
  const refused = error.body as Partial<SettingsRefused> | undefined;
  const wrong = refused?.wrong?.map(({ key, reason }) => [key, reason] as const) ?? [];
  return wrong.length ? Object.fromEntries(wrong) : { "": error.message };
}
