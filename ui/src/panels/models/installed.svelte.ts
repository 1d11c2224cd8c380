// State of installed models: details, fit, and actions.
import { models, type ModelsApi } from "../../api/models";
import { speeds as installedSpeeds, type Speeds } from "../../api/speeds.svelte";
import type { FlawedContents, ModelUpdate, PsModel, ShowResponse, TagsModel, UsageResponse } from "../../api/types";
import { Deferred } from "../../components/deferred.svelte";
import { judge, shapeOf, type Fit, type Room, type Shape } from "./fit";
import { errorLine } from "../../i18n";

/** Interval for loaded models, which other programs' requests change. */
const LOADED_MS = 5_000;

/** Verification of a model's files. */
export interface Check {
  completed: number;
  total: number;
  flawed?: FlawedContents[];
  error?: string;
}

export interface ModelRow {
  model: TagsModel;
  loaded: PsModel | undefined;
  /** Bytes that deleting it frees; absent for models outside of Cairn's libraries. */
  freesBytes: number | undefined;
  library: UsageResponse["libraries"][number]["library"] | undefined;
  check: Check | undefined;
  /** Whether files of the model are missing on the disk. */
  isMissing: boolean;
  /** Bytes to download for a newer model of its registry; absent without one. */
  updateBytes: number | undefined;
}

/** Whether a chat with the model can begin: it generates text, and its files are here. */
export function canChat({ model, isMissing }: Pick<ModelRow, "model" | "isMissing">): boolean {
  return !isMissing && (model.capabilities === undefined || model.capabilities.includes("completion"));
}

export class Installed {
  list = $state.raw<TagsModel[] | undefined>(undefined);
  loaded = $state.raw<PsModel[]>([]);
  usage = $state.raw<UsageResponse | undefined>(undefined);
  shapes = $state.raw<Record<string, Shape>>({});
  checks = $state.raw<Record<string, Check>>({});
  updates = $state.raw<ModelUpdate[] | undefined>(undefined);
  isComparing = $state(false);
  error = $state.raw<unknown>(undefined);
  filter = $state("");
  room = $state.raw<Room | undefined>(undefined);
  contextTokens = $state(4096);
  readonly deletes = new Deferred();
  readonly #aborts = new Map<string, AbortController>();

  constructor(
    private readonly api: ModelsApi = models,
    private readonly speeds: Pick<Speeds, "of" | "refresh"> = installedSpeeds,
  ) {}

  start(): () => void {
    void this.load();
    const timer = setInterval(() => void this.refreshLoaded(), LOADED_MS);
    return () => {
      clearInterval(timer);
      for (const abort of this.#aborts.values()) abort.abort();
      void this.deletes.flush();
    };
  }

  async load(): Promise<void> {
    await this.#do(async () => {
      const [list, loaded] = await Promise.all([this.api.tags(), this.api.loaded()]);
      this.list = list;
      this.loaded = loaded;
      this.error = undefined;
      this.usage = await this.api.usage();
    });
    void this.speeds.refresh();
    for (const model of this.list ?? []) void this.#shape(model.name);
  }

  async refreshLoaded(): Promise<void> {
    try {
      this.loaded = await this.api.loaded();
    } catch {
      // The last list stays; the status bar shows that the daemon is offline.
    }
  }

  get rows(): ModelRow[] {
    const words = this.filter.trim().toLowerCase();
    return (this.list ?? [])
      .filter((model) => !this.deletes.has(model.name))
      .filter((model) => !words || `${model.name} ${model.details.quantization_level} ${model.details.family}`.toLowerCase().includes(words))
      .map((model) => {
        const library = this.usage?.libraries.find((one) => one.models.some((used) => used.model === model.name));
        const used = library?.models.find((one) => one.model === model.name);
        return {
          model,
          loaded: this.loaded.find((one) => one.name === model.name),
          freesBytes: library?.library.role === "own" ? used?.own_bytes : undefined,
          library: library?.library,
          check: this.checks[model.name],
          isMissing: (used?.missing ?? 0) > 0,
          updateBytes: this.updates?.find((one) => one.model === model.name && one.state === "newer")?.download_bytes,
        };
      });
  }

  fit(row: ModelRow): Fit {
    const tokens = Math.min(row.loaded?.context_length ?? this.contextTokens, row.model.details.context_length ?? Infinity);
    const fit = judge(row.model.size, this.shapes[row.model.name] ?? {}, tokens, this.room, this.speeds.of(row.model.name));
    const { speed: _, ...withoutSpeed } = fit;
    if (row.isMissing) return { ...withoutSpeed, verdict: "missing", shortBytes: 0 };
    if (!row.loaded) return fit;
    // A loaded model fits.
    const speed = this.speeds.of(row.model.name);
    return { ...withoutSpeed, verdict: "loaded", shortBytes: 0, ...(speed ? { speed } : {}) };
  }

  async unload(name: string): Promise<void> {
    await this.#do(async () => {
      await this.api.unload(name);
      await this.refreshLoaded();
    });
  }

  /** Loads a model; with `force` despite the memory check. */
  async loadModel(name: string, force: boolean): Promise<void> {
    await this.#do(async () => {
      await this.api.load(name, force);
      await this.refreshLoaded();
    });
  }

  /** Deletes a model after the delay for an undo, and reports the freed space. */
  remove(name: string, onFreed: (freedBytes: number | null) => void): void {
    this.deletes.later(name, name, () =>
      this.#do(async () => {
        const { freed_bytes } = await this.api.remove(name);
        await this.load();
        onFreed(freed_bytes);
      }),
    );
  }

  /** Compares pulled models with their registries. Returns the results, or nothing after an error. */
  async compare(): Promise<ModelUpdate[] | undefined> {
    this.isComparing = true;
    this.updates = undefined;
    await this.#do(async () => void (this.updates = await this.api.updates()));
    this.isComparing = false;
    return this.updates;
  }

  /** Forgets that a model is outdated, because its download began. */
  forgetUpdate(name: string): void {
    this.updates = this.updates?.filter((one) => one.model !== name);
  }

  /** Verifies a model's files against their digests. */
  async verify(name: string): Promise<void> {
    this.#aborts.get(name)?.abort();
    const abort = new AbortController();
    this.#aborts.set(name, abort);
    this.#check(name, { completed: 0, total: 0 });
    try {
      for await (const line of this.api.verify([name], abort.signal)) {
        if (line.status === "hashing") this.#check(name, { completed: line.completed, total: line.total });
        else this.#check(name, { completed: line.bytes, total: line.bytes, flawed: line.flawed });
      }
    } catch (error) {
      if (!abort.signal.aborted) this.#check(name, { completed: 0, total: 0, error: errorLine(error) });
    }
  }

  /** Cancels a verification, or hides its result. */
  forgetCheck(name: string): void {
    this.#aborts.get(name)?.abort();
    this.checks = Object.fromEntries(Object.entries(this.checks).filter(([one]) => one !== name));
  }

  show(name: string): Promise<ShowResponse> {
    return this.api.show(name);
  }

  async #shape(name: string): Promise<void> {
    if (this.shapes[name]) return;
    try {
      const { model_info } = await this.api.show(name);
      this.shapes = { ...this.shapes, [name]: shapeOf(model_info) };
    } catch {
      // Without the model's shape, only its weights count.
    }
  }

  #check(name: string, check: Check): void {
    this.checks = { ...this.checks, [name]: check };
  }

  async #do(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.error = error;
    }
  }
}
