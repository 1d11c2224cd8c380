import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { ApiError } from "../api/client";
import type { ErrorBody } from "../api/types";
import { errorDetails, errorLine, errorText, locale } from "./index";

const read = (path: string): string => readFileSync(join(import.meta.dirname, path), "utf8");
const tables = ["en", "zh-CN"].map((language) => JSON.parse(read(`${language}/errors.json`)) as Record<string, string>);

/** Members of the `ErrorCode` union with the parameters that their documentation lists. */
function documented(): Map<string, string[]> {
  const union = /export type ErrorCode =([\s\S]*?);\n\n/.exec(read("../api/types.ts"))?.[1] ?? "";
  const members = [...union.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*\| "(\w+)"/g)];
  return new Map(members.map(([, doc = "", code = ""]) => [code, /Parameters: ([\w, ]+)\./.exec(doc)?.[1]?.split(", ") ?? []]));
}

describe("texts of errors", () => {
  const codes = documented();
  it("every code has a text in every language, and no other text exists", () => {
    expect(codes.size).toBeGreaterThan(50);
    for (const table of tables) expect(Object.keys(table).toSorted()).toEqual([...codes.keys()].toSorted());
  });
  it("placeholders are documented parameters, without English details", () => {
    const wrong = tables.flatMap((table) =>
      Object.entries(table).flatMap(([code, text]) =>
        [...text.matchAll(/\{(\w+)/g)].map(([, name = ""]) => name).filter((name) => name === "reason" || name === "feature" || !codes.get(code)?.includes(name)).map((name) => `${code}: ${name}`),
      ),
    );
    expect(wrong).toEqual([]);
  });
  it("Chinese texts are Chinese", () => {
    expect(Object.entries(tables[1] ?? {}).filter(([, text]) => !/\p{Script=Han}/u.test(text))).toEqual([]);
  });
});

describe("errorText", () => {
  afterEach(() => locale.set("en"));
  const body = (code: ErrorBody["code"], params: Record<string, string>): ErrorBody => ({ error: "English text", ...(code ? { code } : {}), params });
  const missing = body("model_not_found", { model: "a$&{b}" });

  it("translates the code with its parameters", () => {
    expect(errorText(missing)).toBe("There is no model “a$&{b}”.");
    locale.set("zh-CN");
    expect(errorText(missing)).toBe("没有模型“a$&{b}”。");
    expect(errorText(new ApiError(404, missing.error, missing)), "the error of a request").toBe("没有模型“a$&{b}”。");
  });
  it("formats bytes and counts", () => {
    expect(errorText(body("model_too_large", { need_bytes: "5000000000", free_bytes: "2000000000" }))).toBe("The model needs 5 GB of memory, 2 GB are free.");
    expect(errorText(body("prompt_too_long", { prompt_tokens: "12000", context_tokens: "4096" }))).toBe("The prompt has 12,000 tokens, the context holds 4,096.");
    expect(errorText(body("model_not_found", { model: "12000" })), "names stay as they are").toBe("There is no model “12000”.");
  });
  it("names scopes of API keys as the Server screen does", () => {
    const refused = body("api_key_scope", { scope: "models" });
    expect(errorText(refused)).toBe("This API key doesn't allow that. Use one with the scope “Models”.");
    const either = body("api_key_missing", { scope: "chat or models" });
    expect(errorText(either), "one of several").toContain("“Chat” or “Models”");
    locale.set("zh-CN");
    expect(errorText(either)).toContain("”或“模型”");
    expect(errorText(refused)).toBe("此 API 密钥权限不足，需要“模型”权限。");
    expect(errorText(body("api_key_missing", { scope: "admin" }))).toBe("此操作需要具有“全部”权限的 API 密钥。");
    expect(errorText(body("api_key_missing", { scope: "newer" })), "a scope of a newer daemon").toBe("此操作需要具有“newer”权限的 API 密钥。");
  });
  it("has the failure behind an error, without the words of the server", () => {
    const listed = body("remote_not_a_server", { url: "http://gpu", failure: "remote_status", status: "401", reason: "no key" });
    expect(errorText(listed)).toBe("Can't list the models of http://gpu. The server responded with status 401.");
    expect([errorDetails(listed), errorLine(listed)]).toEqual(["no key", "Can't list the models of http://gpu. The server responded with status 401: no key"]);
    locale.set("zh-CN");
    expect(errorText(listed)).toBe("无法列出 http://gpu 的模型。服务器返回状态 401。");
    const newer = body("remote_not_a_server", { url: "http://gpu", failure: "remote_on_fire" });
    expect(errorText(newer), "a failure of a newer daemon").toBe("无法列出 http://gpu 的模型。");
  });
  it("is English if a parameter is missing", () => {
    locale.set("zh-CN");
    expect(errorText(body("model_not_found", {}))).toBe("English text");
    expect(errorText({ error: "English text", code: "model_not_found" })).toBe("English text");
    expect(errorDetails(body("registry_untrusted", { reason: "why" })), "the text has the details").toBeUndefined();
  });
  it("is English without a code, or with one of a newer daemon", () => {
    locale.set("zh-CN");
    expect(errorText(body(undefined, {}))).toBe("English text");
    expect(errorText(body("unheard_of" as never, {}))).toBe("English text");
    expect(errorText(new ApiError(502, "Bad Gateway"))).toBe("Bad Gateway");
    expect([errorText(new Error("thrown")), errorText("text"), errorText(undefined)]).toEqual(["thrown", "text", ""]);
  });
  it("reports an unreachable daemon", () => {
    const offline = new ApiError(0, "TypeError: Failed to fetch");
    expect(errorLine(offline)).toBe("Can't reach Cairn");
    locale.set("zh-CN");
    expect(errorLine(offline)).toBe("无法连接 Cairn");
  });
});

describe("details", () => {
  afterEach(() => locale.set("en"));
  const full: ErrorBody = { error: "English text", code: "library_write_failed", params: { reason: "no space left on device" } };

  it("follow the sentence where there is no other place", () => {
    expect(errorDetails(full)).toBe("no space left on device");
    expect(errorLine(full)).toBe("Can't write to the model library: no space left on device");
    locale.set("zh-CN");
    expect(errorLine(full)).toBe("无法写入模型库：no space left on device");
  });
  it("are absent without a reason", () => {
    expect(errorDetails({ error: "x", code: "cache_off" })).toBeUndefined();
    expect(errorLine({ error: "x", code: "cache_off" })).toBe("The cache is off.");
    expect(errorLine(new Error("x"))).toBe("x");
  });
});
