import { expect, it, vi } from "vitest";
import type { DownloadsApi } from "../../api/downloads";
import type { Download, DownloadsResponse, ShowResponse } from "../../api/types";
import { Downloads } from "./downloads.svelte";
import { errorText } from "../../i18n";

const download = (id: number, state: Download["state"], part: Partial<Download> = {}): Download => ({
  id, model: `m:${id}`, state, total: 100, completed: 40, bytes_per_second: 0, held_bytes: 40, detached: true, ...part,
});

function downloads(list: Download[], show: (model: string) => Promise<ShowResponse> = async () => ({}) as ShowResponse) {
  const calls: string[] = [];
  const answer = async (call: string): Promise<DownloadsResponse> => (calls.push(call), { downloads: list });
  const api = {
    pause: (id: number) => answer(`pause ${id}`),
    resume: (id: number) => answer(`resume ${id}`),
    force: (id: number) => answer(`force ${id}`),
    move: (id: number, position: number) => answer(`move ${id} ${position}`),
    cap: async () => { throw new Error("too low"); },
  } as unknown as DownloadsApi;
  const queue = new Downloads(api, show);
  queue.hear({ downloads: list });
  return { calls, queue };
}

it("downloads are split into active, done and stopped", () => {
  const { queue } = downloads([
    download(1, "running", { bytes_per_second: 30, source: "nas" }),
    download(2, "done"),
    download(3, "queued"),
    download(4, "stopped"),
    download(5, "running", { bytes_per_second: 50, source: "registry.ollama.ai" }),
    download(6, "failed", { error: { error: "no such model" } }),
  ]);
  expect(queue.queue.map((one) => one.id)).toEqual([1, 3, 5, 6]);
  expect(queue.past.map((one) => one.id)).toEqual([2, 4]);
  expect(queue.bytesPerSecond).toBe(80);
  expect(queue.missingBytes).toBe(240);
  expect(queue.sources.map((one) => `${one.host} ${one.bytesPerSecond}`)).toEqual(["registry.ollama.ai 50", "nas 30"]);
});

it("complete download is shown as verifying", () => {
  const { queue } = downloads([]);
  expect(queue.checking(download(1, "running", { completed: 100 }))).toBe(true);
  expect(queue.checking(download(1, "running", { total: 0, completed: 0 })), "its manifest has not arrived").toBe(false);
  expect(queue.checking(download(1, "done", { completed: 100 }))).toBe(false);
});

it("position counts all downloads", async () => {
  const { queue, calls } = downloads([download(1, "running"), download(2, "done"), download(3, "queued"), download(4, "paused")]);
  const [first, second, third] = queue.queue;
  await queue.move(third!, -1);
  await queue.move(first!, -1);
  await queue.place(second!, first!);
  expect(calls, "the first one cannot move up").toEqual(["move 4 2", "move 3 0"]);
});

it("pause all and resume all affect every matching download", async () => {
  const { queue, calls } = downloads([download(1, "running"), download(2, "queued"), download(3, "paused")]);
  await queue.pauseAll();
  await queue.resumeAll();
  expect(calls).toEqual(["pause 1", "pause 2", "resume 3"]);
  await queue.cap(1);
  expect(errorText(queue.error)).toBe("too low");
  expect(queue.busy).toEqual([]);
});

it("downloaded model with a broken template has a warning, and each model is described once", async () => {
  const described: string[] = [];
  const show = async (model: string): Promise<ShowResponse> => {
    described.push(model);
    if (model === "m:3") throw new Error("no such model");
    return (model === "m:2" ? { template_problem: "line 1" } : {}) as ShowResponse;
  };
  const list = [download(1, "running"), download(2, "done"), download(3, "done"), download(4, "done")];
  const { queue } = downloads(list, show);
  await vi.waitFor(() => expect(queue.templateProblems).toEqual({ 2: "line 1" }));
  queue.hear({ downloads: list.map((one) => ({ ...one, state: "done" })) });
  await vi.waitFor(() => expect(described).toEqual(["m:2", "m:3", "m:4", "m:1"]));
  expect(queue.templateProblems).toEqual({ 2: "line 1" });
});

it("refused download is resumed on request", async () => {
  const { queue, calls } = downloads([download(1, "failed", { error: { error: "no", code: "model_cannot_run" } })]);
  await queue.force(queue.queue[0]!);
  expect(calls).toEqual(["force 1"]);
});
