import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import type { ErrorBody, ErrorCode } from "../api/types";
import { LANGUAGES, locale, type Language } from "../i18n";
import { has } from "../i18n/locale.svelte";
import { CURES, cureOf, OPENS } from "./cures";
import { PANELS } from "./panels";
import { parse } from "./router.svelte";

const SRC = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(SRC, path), "utf8");

/** Members of the daemon's enum, from the generated types. */
function codes(): ErrorCode[] {
  const union = /export type ErrorCode =([\s\S]*?);\n\n/.exec(read("api/types.ts"))?.[1] ?? "";
  return [...union.matchAll(/\| "(\w+)"/g)].map((match) => match[1] as ErrorCode);
}

describe("table of errors", () => {
  const location = { hash: "" };
  beforeEach(() => vi.stubGlobal("location", location));
  afterEach(() => {
    vi.unstubAllGlobals();
    locale.set("en");
  });

  it("has a row for each code of the daemon", () => {
    expect(codes().length).toBeGreaterThan(140);
    expect(Object.keys(CURES).toSorted()).toEqual(codes().toSorted());
  });

  it("has a button for each error on a screen, unless it ends without help or was intended", () => {
    const without = Object.entries(CURES).filter(([, [place, cure]]) => (place === "field") !== (cure === "edit") || (place === "other") !== (cure === "unseen"));
    expect(without, "only fields are edited, and only what no screen shows is unseen").toEqual([]);
    const silent = Object.entries(CURES).filter(([, [, cure]]) => cure === "passes" || cure === "intended").map(([code]) => code);
    expect(silent.toSorted()).toEqual([
      "chat_answering", "chats_not_erased", "chats_repaired", "context_not_found",
      "download_cancelled", "download_complete", "download_discarded", "download_interrupted", "tool_call_not_found",
    ]);
  });

  it("has labels in every language and opens screens that exist", () => {
    const sections = Object.keys(JSON.parse(read("i18n/en/settings.json")) as object).flatMap((key) => /^group_(\w+)$/.exec(key)?.[1] ?? []);
    for (const language of Object.keys(LANGUAGES) as Language[]) {
      locale.set(language);
      for (const [cure, open] of Object.entries(OPENS)) {
        expect(has(`common.cure_${cure}`), `${language} ${cure}`).toBe(true);
        location.hash = "";
        open();
        const [panel = "", part] = parse(location.hash);
        expect(PANELS.map((one) => one.id), cure).toContain(panel);
        if (panel === "settings") expect(sections, cure).toContain(part);
      }
    }
  });
});

describe("button of an error", () => {
  const of = (code: ErrorCode): ErrorBody => ({ error: "English", code });
  it("opens the cure, or repeats the request", () => {
    const retry = vi.fn();
    expect(cureOf(of("registry_unreachable"), retry)?.label).toBe("Proxy settings");
    expect(cureOf(new ApiError(500, "x", of("model_too_large")))?.label).toBe("Choose another model");
    cureOf(of("server_busy"), retry)?.run();
    cureOf(new ApiError(0, "offline"), retry)?.run();
    cureOf(new Error("without a code"), retry)?.run();
    expect(retry).toHaveBeenCalledTimes(3);
  });
  it("is absent where the place cannot repeat the request, and at fields", () => {
    expect([cureOf(of("server_busy")), cureOf(of("message_empty"), vi.fn()), cureOf(of("chat_answering"), vi.fn())]).toEqual([undefined, undefined, undefined]);
    expect(cureOf({ error: "x", code: "of_a_newer_daemon" })).toBeUndefined();
  });
});
