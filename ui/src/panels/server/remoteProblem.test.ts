import { expect, it } from "vitest";
import { ApiError } from "../../api/client";
import type { ErrorCode } from "../../api/types";
import { isPlain, problemOf, type RemoteForm } from "./remoteProblem";

function refused(code: ErrorCode, params: Record<string, string> = {}): ApiError {
  return new ApiError(400, "English text", { error: "English text", code, params });
}

/** The field of a problem, and the cured field with its value. */
function check(error: unknown, form: Partial<RemoteForm>, expected: string | undefined, taken: string[] = []): void {
  const problem = problemOf(error, { name: "gpu", url: "http://gpu:1", key: "", insecure: false, ...form }, taken);
  const shown = problem && [problem.field, ...(problem.cure ? [`${problem.cure.field}=${problem.cure.value}`] : [])].join(" ");
  expect(shown, JSON.stringify(form)).toBe(expected);
}

it("invalid or taken name has a better name", () => {
  const invalid = refused("remote_name_invalid");
  check(invalid, { name: "my gpu / 2" }, "name name=my-gpu-2");
  check(invalid, { name: "x".repeat(70) }, `name name=${"x".repeat(64)}`);
  check(invalid, { name: "显卡" }, "name");
  check(invalid, { name: "../gpu" }, "name name=gpu");
  const taken = refused("remote_name_taken", { name: "gpu" });
  check(taken, { name: "gpu" }, "name name=gpu-2", ["gpu"]);
  check(taken, { name: "gpu" }, "name name=gpu-3", ["gpu", "gpu-2"]);
  check(taken, { name: "x".repeat(64) }, `name name=${"x".repeat(62)}-2`);
});

it("invalid address is repaired if it can be", () => {
  const invalid = refused("remote_url_invalid");
  check(invalid, { url: "ftp://gpu:8000" }, "url url=http://gpu:8000");
  check(invalid, { url: "https://user:secret@gpu/llm?x=1#y" }, "url url=https://gpu/llm");
  check(invalid, { url: "http://gpu :80 00" }, "url url=http://gpu:8000");
  check(invalid, { url: "http://gpu:99999" }, "url");
});

it("address of the daemon itself has no better value", () => {
  check(refused("remote_is_self", { url: "http://127.0.0.1:11434" }), { url: "http://127.0.0.1:11434" }, "url");
});

it("server that does not respond may have the usual port", () => {
  const silent = refused("remote_not_a_server", { url: "http://gpu", failure: "remote_unreachable", reason: "Connection refused" });
  check(silent, { url: "gpu" }, "url url=http://gpu:11434");
  check(silent, { url: "http://[::1]/" }, "url url=http://[::1]:11434");
  check(silent, { url: "http://gpu:8000" }, "url");
  check(silent, { url: "https://gpu" }, "url");
});

it("refusal of the server is a problem of the key", () => {
  check(refused("remote_not_a_server", { failure: "remote_status", reason: "no key", status: "401" }), {}, "key");
  check(refused("remote_not_a_server", { failure: "remote_status", reason: "not status 401", status: "404" }), { url: "http://gpu:1" }, "url");
});

it("key is sent encrypted or without invalid characters", () => {
  const plain = refused("remote_key_plain", { url: "http://gpu:8000" });
  check(plain, { key: "sk-1", url: "gpu:8000/v1" }, "key url=https://gpu:8000/v1");
  check(plain, { key: "sk-1 密", url: "gpu:8000" }, "key url=https://gpu:8000");
  const invalid = refused("remote_key_invalid");
  check(invalid, { key: "sk-1 密", url: "gpu:8000" }, "key key=sk-1");
  check(invalid, { key: "sk-1 密", url: "gpu:8000", insecure: true }, "key key=sk-1");
  check(invalid, { key: "密", url: "https://gpu" }, "key");
});

it("other errors belong to no field", () => {
  check(refused("too_many_remotes", { limit: "128" }), {}, undefined);
  check(new ApiError(0, "offline"), {}, undefined);
  check(new Error("thrown"), {}, undefined);
});

it("only plain HTTP to other machines exposes a key", () => {
  expect(["gpu:8000", "http://192.168.1.5", "gpu"].map(isPlain)).toEqual([true, true, true]);
  expect(["https://gpu", " HTTPS://gpu", "http://127.0.0.1:1", "localhost:1", "[::1]:1", ""].map(isPlain)).toEqual([false, false, false, false, false, false]);
});
