// Installed and loaded models, for the chat and the status bar. The daemon does not push changes of these, so they are
// requested again after anything that may have changed them.
import { models as api } from "./models";
import type { PsModel, ShowResponse, TagsModel } from "./types";

/** Bounds of the time until the list of loaded models is requested again. */
const SHORTEST_MS = 5_000;
const LONGEST_MS = 3_600_000;
/** Time that the daemon takes to unload a model. */
const UNLOAD_MS = 500;

export class Models {
  installed = $state.raw<readonly TagsModel[]>([]);
  loaded = $state.raw<readonly PsModel[]>([]);
  /** Whether the list has been loaded once. */
  hasList = $state(false);

  #expiry: ReturnType<typeof setTimeout> | undefined;
  /**
   * Capabilities of described models, by name and digest. The list has those that the model's publisher wrote into its config only: the
   * daemon reads no model file for it.
   */
  #described = $state.raw<Readonly<Record<string, readonly string[]>>>({});

  #resolveList = (): void => {};
  readonly #listed = new Promise<void>((resolve) => (this.#resolveList = resolve));

  async refresh(): Promise<void> {
    const [tags, ps] = await Promise.allSettled([api.tags(), api.loaded()]);
    if (tags.status === "rejected") throw tags.reason;
    this.installed = tags.value;
    if (ps.status === "fulfilled") this.takeLoaded(ps.value);
    this.hasList = true;
    this.#resolveList();
  }

  /** Waits until the list has been loaded. */
  async ready(): Promise<void> {
    if (!this.hasList) await Promise.race([this.#listed, this.refresh()]);
  }

  async refreshLoaded(): Promise<void> {
    this.takeLoaded(await api.loaded());
  }

  /** Applies a list of loaded models, and requests it again when the first of them expires. */
  takeLoaded(loaded: readonly PsModel[]): void {
    this.loaded = loaded;
    clearTimeout(this.#expiry);
    if (loaded.length === 0) return;
    const firstMs = Math.min(...loaded.map((model) => Date.parse(model.expires_at))) - Date.now();
    const waitMs = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, firstMs + UNLOAD_MS));
    this.#expiry = setTimeout(() => void this.refreshLoaded().catch(() => {}), Number.isFinite(waitMs) ? waitMs : LONGEST_MS);
  }

  find(name: string | undefined): TagsModel | undefined {
    return this.installed.find((model) => sameModel(model.name, name));
  }

  isLoaded(name: string | undefined): PsModel | undefined {
    return this.loaded.find((model) => sameModel(model.name, name));
  }

  /** Context size of a model in tokens: as it is loaded, else the configured size, which the model's own limits. */
  contextOf(name: string | undefined, configured: number | undefined): number | undefined {
    const loaded = this.isLoaded(name)?.context_length;
    if (loaded !== undefined) return loaded;
    const model = this.find(name);
    if (model === undefined) return undefined;
    const limits = [configured, model.details.context_length].filter((tokens) => tokens !== undefined);
    return limits.length > 0 ? Math.min(...limits) : undefined;
  }

  /** Whether a model has a capability, by the list or by its description. */
  can(name: string | undefined, capability: string): boolean {
    const model = this.find(name);
    return [model?.capabilities, model && this.#described[key(model)]].some((names) => names?.includes(capability));
  }

  /** Whether the description of a model was requested: the list alone may lack capabilities. */
  isDescribed(name: string | undefined): boolean {
    const model = this.find(name);
    return model !== undefined && key(model) in this.#described;
  }

  /** Requests the description of a model, and stores its capabilities. */
  async describe(name: string): Promise<ShowResponse> {
    const model = this.find(name);
    const shown = await api.show(name);
    if (model) this.#described = { ...this.#described, [key(model)]: shown.capabilities ?? [] };
    return shown;
  }

  /** The model of a new chat: the wanted one if installed, else a loaded one, else the first. */
  pick(wanted: string | undefined): string | undefined {
    const chats = this.installed.filter((model) => !model.capabilities || model.capabilities.includes("completion"));
    return this.find(wanted)?.name ?? this.loaded[0]?.name ?? chats[0]?.name;
  }
}

/** Identifies the contents of a model. */
function key(model: TagsModel): string {
  return `${model.name} ${model.digest}`;
}

/** Whether two names are the same model: `pebble` is `pebble:latest`. */
export function sameModel(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const full = (name: string): string => (/:[^/]*$/.test(name) ? name : `${name}:latest`).toLowerCase();
  return full(a) === full(b);
}

export const models = new Models();
