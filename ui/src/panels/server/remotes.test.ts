import { expect, it } from "vitest";
import { ApiError } from "../../api/client";
import type { AddRemoteRequest, Remote, RemotesApi } from "../../api/remotes";
import { Remotes } from "./remotes.svelte";

const remote = (name: string, part: Partial<Remote> = {}): Remote => ({
  name, url: `http://${name}:1`, kind: "ollama", has_key: false, state: "up", models: ["a"], outstanding: 0, requests: 0, failures: 0, prompt_tokens: 0, cached_tokens: 0, answer_tokens: 0, ...part,
});

/** A daemon with remotes in memory. */
function daemon(stored: Remote[] = []) {
  const requests: AddRemoteRequest[] = [];
  const api: RemotesApi = {
    list: async () => ({ remotes: [...stored] }),
    add: async (request) => {
      const { name, url, key } = request;
      if (stored.some((one) => one.name === name)) throw new ApiError(409, "taken", { error: "taken", code: "remote_name_taken", params: { name } });
      if (url === "full") throw new ApiError(409, "full", { error: "full", code: "too_many_remotes", params: { limit: "1" } });
      requests.push(request);
      stored.push(remote(name, { url, has_key: key !== undefined }));
      return { remotes: [...stored] };
    },
    check: async (name) => {
      stored = stored.map((one) => (name === undefined || one.name === name ? { ...one, state: "down", error: { error: "gone", code: "remote_unreachable" } } : one));
      return { remotes: [...stored] };
    },
    remove: async (name) => ((stored = stored.filter((one) => one.name !== name)), { remotes: [...stored] }),
  };
  return { api, requests };
}

function fill(remotes: Remotes, name: string, url: string, key = ""): void {
  [remotes.name, remotes.url, remotes.key] = [name, url, key];
}

it("remote is added, checked and removed", async () => {
  const { api, requests } = daemon();
  const remotes = new Remotes(api);
  await remotes.load();
  expect([remotes.list, remotes.ready]).toEqual([[], false]);
  fill(remotes, " gpu ", " gpu:1 ");
  expect((await remotes.add())?.name).toBe("gpu");
  expect(requests, "without a key").toEqual([{ name: "gpu", url: "gpu:1" }]);
  await remotes.check("gpu");
  expect([remotes.list?.[0]?.state, remotes.list?.[0]?.error?.error, remotes.checking]).toEqual(["down", "gone", undefined]);
  expect(await remotes.remove("gpu")).toBe(true);
  expect(remotes.list).toEqual([]);
});

it("key is not kept after the form is reset, and is sent unencrypted only by choice", async () => {
  const { api, requests } = daemon();
  const remotes = new Remotes(api);
  remotes.insecure = true;
  fill(remotes, "a", "https://a", " sk-1 ");
  await remotes.add();
  fill(remotes, "b", "http://b");
  await remotes.add();
  fill(remotes, "c", "http://c", "sk-1");
  expect(remotes.isKeyPlain).toBe(true);
  await remotes.add();
  expect(requests.map(({ key, insecure }) => [key, insecure])).toEqual([["sk-1", false], [undefined, undefined], ["sk-1", true]]);
  remotes.reset();
  expect([remotes.name, remotes.url, remotes.key, remotes.insecure]).toEqual(["", "", "", false]);
  expect(JSON.stringify(remotes.list)).not.toContain("sk-1");
});

it("problem of a field is shown until the field changes, and its cure can be applied", async () => {
  const remotes = new Remotes(daemon([remote("gpu")]).api);
  await remotes.load();
  fill(remotes, "gpu", "gpu:1");
  expect(await remotes.add()).toBeUndefined();
  expect([remotes.problem?.field, remotes.problem?.cure, remotes.otherError]).toEqual(["name", { field: "name", value: "gpu-2" }, undefined]);
  remotes.url = "gpu:2";
  expect(remotes.problem?.field, "another field").toBe("name");
  remotes.set("name", "gpu-2");
  expect(remotes.problem).toBeUndefined();
  expect((await remotes.add())?.name).toBe("gpu-2");
});

it("refused plain key is solved by the address or by the switch", async () => {
  const { api } = daemon();
  api.add = async () => {
    throw new ApiError(400, "plain", { error: "plain", code: "remote_key_plain", params: { url: "http://gpu:1" } });
  };
  const remotes = new Remotes(api);
  fill(remotes, "gpu", "gpu:1", "sk-1");
  await remotes.add();
  expect([remotes.problem?.field, remotes.problem?.isKeyPlain, remotes.problem?.cure?.value]).toEqual(["key", true, "https://gpu:1"]);
  remotes.insecure = true;
  expect(remotes.problem).toBeUndefined();
  remotes.insecure = false;
  remotes.url = "https://gpu:1";
  expect(remotes.problem).toBeUndefined();
});

it("error without a field is shown for the form", async () => {
  const remotes = new Remotes(daemon().api);
  fill(remotes, "gpu", "full");
  await remotes.add();
  expect([remotes.problem, String(remotes.otherError)]).toEqual([undefined, "Error: full"]);
  remotes.reset();
  expect(remotes.otherError).toBeUndefined();
});

it("late list does not replace the list of a newer change", async () => {
  const { api } = daemon([remote("gpu")]);
  let answer: (list: { remotes: Remote[] }) => void = () => {};
  const remotes = new Remotes(api);
  await remotes.load();
  api.list = () => new Promise((resolve) => (answer = resolve));
  const refreshed = remotes.refresh();
  await remotes.remove("gpu");
  answer({ remotes: [remote("gpu")] });
  await refreshed;
  expect(remotes.list).toEqual([]);
});

it("list stays if it cannot be loaded again", async () => {
  const { api } = daemon([remote("gpu")]);
  const remotes = new Remotes(api);
  await remotes.load();
  api.list = async () => {
    throw new ApiError(0, "offline");
  };
  await remotes.refresh();
  expect(remotes.list?.map((one) => one.name)).toEqual(["gpu"]);
});

it("one check runs at a time, and ends after an error", async () => {
  const { api } = daemon([remote("gpu")]);
  let fail: (error: Error) => void = () => {};
  api.check = () => new Promise((_, reject) => (fail = reject));
  const remotes = new Remotes(api);
  const checked = remotes.check("gpu");
  expect([remotes.isChecking("gpu"), remotes.isChecking("other")]).toEqual([true, false]);
  await remotes.check();
  fail(new Error("offline"));
  await expect(checked).rejects.toThrow("offline");
  expect(remotes.checking).toBeUndefined();
});
