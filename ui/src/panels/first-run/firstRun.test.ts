import { expect, it } from "vitest";
import type { FoundModel, HardwareResponse, ImportLine, ScanLine, UsageResponse } from "../../api/types";
import { FirstRun } from "./firstRun.svelte";
import { errorText } from "../../i18n";

const variant = (name: string, size: number) => ({ name, size, estimated: true, here: false });
const CATALOGUE = [variant("qwen3:0.6b", 5), variant("qwen3:4b", 25), variant("qwen3:8b", 52), variant("llama3.2:1b", 13)];
const model = (path: string, state: FoundModel["state"] = "new"): FoundModel => ({
  name: path, path, state, size: 10, app: "LM Studio", parts: 1, family: "", parameter_size: "", quantization_level: "",
});
const machine = (total: number) => ({ memory: { total_bytes: total, available_bytes: total, kept_bytes: 0 } }) as HardwareResponse;
const usage = (free: number) =>
  ({ libraries: [{ library: { role: "own", path: "/models" }, free_bytes: free, models: [] }] }) as unknown as UsageResponse;

function first(found: FoundModel[], free = 1000, bad: string[] = []) {
  const calls: string[] = [];
  const run = new FirstRun({
    downloads: {
      add: async (name: string) => (calls.push(`add ${name}`), {} as never),
      discover: async (_words: string, own: boolean) => (calls.push(`discover ${own}`), { models: [{ variants: CATALOGUE } as never], measuring: false }),
    },
    models: {
      usage: async () => usage(free),
      scan: async function* (): AsyncGenerator<ScanLine> {
        yield { status: "done", models: found, folders: [], skipped: [] };
      },
      importFile: async function* ({ path, link }): AsyncGenerator<ImportLine> {
        calls.push(`importFile ${path} ${link}`);
        if (bad.includes(path)) throw new Error(`${path} is broken`);
      },
    },
  });
  return { calls, run };
}
const signal = new AbortController().signal;

it("default is the small model, chosen without network requests", async () => {
  const { run, calls } = first([]);
  run.machine = machine(100);
  await run.look(signal);
  expect(calls).toEqual(["discover true"]);
  expect([run.start, run.variant?.name, run.balanced?.name, run.folder]).toEqual(["small", "qwen3:0.6b", "qwen3:8b", "/models"]);
  expect(await run.go(signal)).toBe(true);
  expect(calls.at(-1)).toBe("add qwen3:0.6b");
});

it("offered models fit in memory and on disk", async () => {
  const { run } = first([], 30);
  run.machine = machine(40);
  await run.look(signal);
  expect(run.balanced?.name).toBe("qwen3:4b");
  const none = first([], 3).run;
  await none.look(signal);
  expect([none.start, none.variant, none.balanced], "without space, Pebble is the default").toEqual(["pebble", undefined, undefined]);
});

it("balanced model is the best that answers fast enough", async () => {
  const { run } = first([]);
  run.machine = machine(100);
  const answers = (tokens: number[]) => {
    run.variants = CATALOGUE.map((one, at) => {
      const figure = { tokens_per_second: tokens[at] ?? 0, measured: false };
      return { ...one, speed: { answer: figure, prompt: figure } };
    });
    return [run.small?.name, run.balanced?.name];
  };
  await run.look(signal);
  expect(answers([60, 12, 7, 30])).toEqual(["qwen3:0.6b", "qwen3:4b"]);
  expect(answers([60, 12, 8, 30])).toEqual(["qwen3:0.6b", "qwen3:8b"]);
  expect(answers([4, 1, 0.5, 2]), "without a fast one, the smallest").toEqual(["llama3.2:1b", "qwen3:4b"]);
});

it("models of other apps are the default, and one that fails does not stop the others", async () => {
  const { run, calls } = first([model("/a"), model("/b", "here"), model("/c")], 1000, ["/a"]);
  await run.look(signal);
  expect([run.start, run.usable.length, run.usableBytes, run.apps.join()]).toEqual(["found", 2, 20, "LM Studio"]);
  expect(await run.go(signal), "one of two was imported").toBe(true);
  expect(run.imported).toBe(1);
  expect(calls.slice(1)).toEqual(["importFile /a true", "importFile /c true"]);
});

it("failed import is reported", async () => {
  const { run } = first([model("/a")], 1000, ["/a"]);
  await run.look(signal);
  expect(await run.go(signal)).toBe(false);
  expect(errorText(run.error)).toBe("/a is broken");
  expect(run.busy).toBe(false);
});
