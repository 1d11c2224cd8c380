// `/app/settings`: the settings table, and drafts of changes that are written together or not at all.
import { uiSettings } from "./uiSettings.svelte";
import { ApiError, get, patch } from "./client";
import type { ErrorBody, Setting, SettingsRefused, SettingsResponse } from "./types";

/** An edited value; `null` resets to the default. */
export type Value = boolean | number | string | null;

/** The requests, replaced in tests. */
export interface SettingsApi {
  read: () => Promise<SettingsResponse>;
  write: (change: Record<string, Value>) => Promise<SettingsResponse>;
}

const wire: SettingsApi = {
  read: () => get<SettingsResponse>("/app/settings"),
  write: (change) => patch<SettingsResponse>("/app/settings", change),
};

/** Settings on a screen: stored values, drafts, and errors. */
export class SettingsTable {
  table = $state.raw<SettingsResponse | undefined>(undefined);
  error = $state.raw<ApiError | undefined>(undefined);
  saving = $state(false);
  /** Unsaved changes by key. */
  draft = $state.raw<Record<string, Value>>({});
  /** Errors by key; the empty key is for errors of no single setting. */
  wrong = $state.raw<Record<string, ErrorBody | ApiError>>({});
  /** Values before the last change, for undo. */
  before = $state.raw<Record<string, Value> | undefined>(undefined);
  /** Number of started and finished writes. */
  #writes = 0;

  constructor(
    private readonly api: SettingsApi = wire,
    /** Called with every table, so that settings of the interface apply at once. */
    private readonly onTable: (table: SettingsResponse) => void = (table) => uiSettings.take(table.settings),
  ) {}

  async load(): Promise<void> {
    const writes = this.#writes;
    try {
      const table = await this.api.read();
      // The answer of a write that happened meanwhile is newer.
      if (writes === this.#writes) this.#show(table);
      this.error = undefined;
    } catch (error) {
      this.error = error instanceof ApiError ? error : new ApiError(0, String(error));
    }
  }

  #show(table: SettingsResponse): void {
    this.table = table;
    this.onTable(table);
  }

  find(key: string): Setting | undefined {
    return this.table?.settings.find((setting) => setting.key === key);
  }

  /** The value of a field: the draft, or else the stored value. */
  shown(setting: Setting): Value {
    const drafted = this.draft[setting.key];
    return drafted !== undefined ? drafted : (setting.value ?? null);
  }

  /** Whether the environment or the command line overrides a setting. */
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

  /** Discards a draft. */
  forget(key: string): void {
    this.draft = without(this.draft, [key]);
    this.wrong = without(this.wrong, [key, ""]);
  }

  /** Saves one setting at once. Returns false if it was refused; the draft and its error stay. */
  async put(key: string, value: Value): Promise<boolean> {
    this.set(key, value);
    return this.save([key]);
  }

  /** Saves drafts, of some keys or all. Returns false if they were refused; `wrong` has the errors by key. */
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

  /** Restores the values before the last change. */
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

function reasons(error: unknown): Record<string, ErrorBody | ApiError> {
  if (!(error instanceof ApiError)) return { "": { error: String(error) } };
  const refused = error.body as Partial<SettingsRefused> | undefined;
  const wrong = refused?.wrong?.map((row) => [row.key, row] as const) ?? [];
  return wrong.length ? Object.fromEntries(wrong) : { "": error };
}
