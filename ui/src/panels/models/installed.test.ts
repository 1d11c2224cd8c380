import { expect, it, vi } from "vitest";
import type { ModelsApi } from "../../api/models";
import type { PsModel, TagsModel, UsageResponse, VerifyLine } from "../../api/types";
import { canChat, Installed } from "./installed.svelte";
import { errorText } from "../../i18n";

const details = { parent_model: "", format: "gguf", family: "llama", families: null, parameter_size: "1B", quantization_level: "Q4_K_M" };
const model = (name: string, size = 10): TagsModel => ({ name, model: name, modified_at: "", size, digest: "", details });
const library = { path: "/models", role: "own", state: "present", missed: false, models: 2 } as const;
const usage: UsageResponse = {
  total_bytes: 30,
  libraries: [{
    library, model_bytes: 30, shared_bytes: 0, unreferenced_bytes: 0, unreferenced_files: 0, partial_bytes: 0, partial_files: 0, free_bytes: 100,
    models: [{ model: "a:1", own_bytes: 8, shared_bytes: 2, missing: 0 }],
  }],
};

function installed(part: Partial<ModelsApi> = {}) {
  const calls: string[] = [];
  const api = {
    tags: async () => [model("a:1"), model("pebble:latest", 4)],
    loaded: async () => [{ name: "pebble:latest", context_length: 64 } as PsModel],
    usage: async () => usage,
    show: async () => ({ model_info: { "general.architecture": "x", "x.block_count": 2, "x.attention.head_count_kv": 1, "x.attention.key_length": 4 } }),
    unload: async (name: string) => void calls.push(`unload ${name}`),
    remove: async (name: string) => (calls.push(`remove ${name}`), { model: name, freed_bytes: 8 }),
    ...part,
  } as unknown as ModelsApi;
  const figure = { tokens_per_second: 12, measured: true };
  const speeds = { of: (name: string | undefined) => (name === "pebble:latest" ? { answer: figure, prompt: figure } : undefined), refresh: async () => {} };
  return { calls, models: new Installed(api, speeds) };
}

it("models are listed with freed space and loaded state", async () => {
  const { models } = installed();
  await models.load();
  const rows = models.rows.map((row) => `${row.model.name} ${row.freesBytes} ${row.loaded !== undefined}`);
  expect(rows).toEqual(["a:1 8 false", "pebble:latest undefined true"]);
  models.filter = "peb";
  expect(models.rows.map((row) => row.model.name)).toEqual(["pebble:latest"]);
});

it("fit uses the file's shape, and loaded models fit", async () => {
  const { models } = installed();
  await models.load();
  await vi.waitFor(() => expect(Object.keys(models.shapes)).toHaveLength(2));
  models.room = { totalBytes: 1000, availableBytes: 50 };
  models.contextTokens = 10;
  const fits = models.rows.map((row) => models.fit(row));
  // 2 layers, 1 head, keys and values of 4 numbers of 2 bytes.
  expect(fits[0]).toMatchObject({ verdict: "slow", contextBytes: 320, needBytes: 330, shortBytes: 280 });
  expect(fits[1]).toMatchObject({ verdict: "loaded", contextTokens: 64, shortBytes: 0, speed: { answer: { tokens_per_second: 12 } } });
});

it("model is deleted after the undo delay", async () => {
  vi.useFakeTimers();
  const { models, calls } = installed();
  await models.load();
  let freed: number | null = null;
  models.remove("a:1", (bytes) => (freed = bytes));
  expect(models.rows.map((row) => row.model.name), "hidden at once").toEqual(["pebble:latest"]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(calls).toEqual(["remove a:1"]);
  expect(freed).toBe(8);
  vi.useRealTimers();
});

it("verification reports its result or its error", async () => {
  const lines: VerifyLine[] = [
    { status: "hashing", completed: 5, total: 10 },
    { status: "done", models: 1, contents: 1, bytes: 10, flawed: [], skipped: [] },
  ];
  const { models } = installed({ verify: async function* () { yield* lines; } });
  await models.verify("a:1");
  expect(models.checks["a:1"]).toEqual({ completed: 10, total: 10, flawed: [] });
  const broken = installed({ verify: async function* () { throw new Error("the disk is gone"); } });
  await broken.models.verify("a:1");
  expect(broken.models.checks["a:1"]?.error).toBe("the disk is gone");
});

it("failed actions are reported", async () => {
  const { models } = installed({ unload: async () => { throw new Error("it is in use"); } });
  await models.unload("a:1");
  expect(errorText(models.error)).toBe("it is in use");
});

it("model with a missing file does not fit", async () => {
  const [library] = usage.libraries;
  const { models } = installed({ usage: async () => ({ ...usage, libraries: [{ ...library!, models: [{ model: "a:1", own_bytes: 8, shared_bytes: 2, missing: 1 }] }] }) });
  models.room = { totalBytes: 1e9, availableBytes: 1e9 };
  await models.load();
  const verdicts = models.rows.map((row) => models.fit(row).verdict);
  expect(verdicts).toEqual(["missing", "loaded"]);
});

it("chat is offered for models that generate text and are complete", () => {
  const check = (capabilities: string[] | undefined, isMissing: boolean): boolean => canChat({ model: { ...model("a"), capabilities }, isMissing });
  expect([check(undefined, false), check(["completion", "tools"], false), check(["embedding"], false), check(["completion"], true)]).toEqual([true, true, false, false]);
});

it("newer models are marked until their download begins, and an error is kept", async () => {
  const { models } = installed({ updates: async () => [{ model: "a:1", state: "newer", download_bytes: 7 }, { model: "b", state: "unknown", problem: "no route" }] });
  await models.load();
  const bytes = (): (number | undefined)[] => models.rows.map((row) => row.updateBytes);
  expect(bytes(), "nothing is compared unasked").toEqual([undefined, undefined]);
  expect((await models.compare())?.length).toBe(2);
  expect(bytes()).toEqual([7, undefined]);
  models.forgetUpdate("a:1");
  expect(bytes()).toEqual([undefined, undefined]);
  const failing = installed({ updates: () => Promise.reject(new Error("offline")) }).models;
  expect(await failing.compare()).toBeUndefined();
  expect([failing.isComparing, failing.error]).toEqual([false, new Error("offline")]);
});
