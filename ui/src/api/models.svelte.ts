// Installed and loaded models, for the chat and the status bar. The daemon does not push changes of these, so they are
// requested again after anything that may have changed them.
import { get, post } from "./client";

export interface ModelDetails {
  family: string;
  parameter_size: string;
  quantization_level: string;
  context_length?: number;
}

export interface TagsModel {
  name: string;
  model: string;
  modified_at: string;
  size: number;
  digest: string;
  details: ModelDetails;
  capabilities?: string[];
  origin?: string;
  /** Names of the remotes that have the model, if it is not on this machine. */
  remotes?: string[];
}

export interface PsModel {
  name: string;
  model: string;
  size: number;
  digest: string;
  details: ModelDetails;
  expires_at: string;
  size_vram: number;
  context_length: number;
}

export interface ShowResponse {
  parameters: string;
  system: string;
  details: ModelDetails;
  capabilities: string[];
  /** Why chats with the model fail because of its template. */
  template_problem?: string;
  model_info: Record<string, unknown>;
}

class Models {
  installed = $state.raw<readonly TagsModel[]>([]);
  loaded = $state.raw<readonly PsModel[]>([]);
  /** Whether the list has been loaded once. */
  hasList = $state(false);

  #resolveList = (): void => {};
  readonly #listed = new Promise<void>((resolve) => (this.#resolveList = resolve));

  async refresh(): Promise<void> {
    const [tags, ps] = await Promise.allSettled([get<{ models: TagsModel[] }>("/api/tags"), get<{ models: PsModel[] }>("/api/ps")]);
    if (tags.status === "rejected") throw tags.reason;
    this.installed = tags.value.models;
    if (ps.status === "fulfilled") this.loaded = ps.value.models;
    this.hasList = true;
    this.#resolveList();
  }

  /** Waits until the list has been loaded. */
  async ready(): Promise<void> {
    if (!this.hasList) await Promise.race([this.#listed, this.refresh()]);
  }

  async refreshLoaded(): Promise<void> {
    this.loaded = (await get<{ models: PsModel[] }>("/api/ps")).models;
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

  can(name: string | undefined, capability: string): boolean {
    return this.find(name)?.capabilities?.includes(capability) ?? false;
  }

  /** The model of a new chat: the wanted one if installed, else a loaded one, else the first. */
  pick(wanted: string | undefined): string | undefined {
    const chats = this.installed.filter((model) => !model.capabilities || model.capabilities.includes("completion"));
    return this.find(wanted)?.name ?? this.loaded[0]?.name ?? chats[0]?.name;
  }
}

/** Whether two names are the same model: `pebble` is `pebble:latest`. */
export function sameModel(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const full = (name: string): string => (/:[^/]*$/.test(name) ? name : `${name}:latest`).toLowerCase();
  return full(a) === full(b);
}

export const models = new Models();
export const showModel = (model: string): Promise<ShowResponse> => post("/api/show", { model });
