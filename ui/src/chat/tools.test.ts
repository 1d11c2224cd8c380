import { describe, expect, it } from "vitest";
import type { Call, Message } from "../api/chats";
import { locale } from "../i18n";
import { leftOutLine, originName } from "../i18n/tools";
import { matchesIn } from "./find.svelte";
import { argumentLines, argumentsJson, hasMore, visible } from "./toolArguments";
import { allText, isCalling, waitingCall } from "./toolSteps";

const call = (state: Call["state"], id = state): Call => ({ id, function: "f", origin: "files", tool: "read", arguments: {}, state });
const answer = (state: Message["state"], calls: Call[], content = "End"): Message => ({ id: "a", role: "assistant", content, created_at: "", state, steps: [{ content: "First bird", calls: [] }, { content: "", calls }] });

describe("arguments", () => {
  const check = (args: unknown, expected: string[], more: boolean): void => {
    expect(argumentLines(args).map(({ name, value }) => `${name}: ${value}`), JSON.stringify(args)).toEqual(expected);
    expect(hasMore(args), `${JSON.stringify(args)} has more`).toBe(more);
  };
  it("are lines of names and values; texts without quotes, all others as JSON", () => {
    check({ path: "/a b/c.txt", limit: 3, all: true, none: null }, ["path: /a b/c.txt", "limit: 3", "all: true", "none: null"], false);
    check({ filter: { names: ["a", "b"] } }, ['filter: {"names":["a","b"]}'], true);
    check({ text: "one\ntwo" }, ["text: one\ntwo"], false);
    check({}, [], false);
    check(undefined, [], false);
    check(["a"], [': ["a"]'], false);
  });
  it("long values and long lists are clipped, and their JSON is whole", () => {
    const [line] = argumentLines({ text: "x".repeat(1000) });
    expect([line?.value.length, line?.clipped]).toEqual([400, 600]);
    expect(hasMore({ text: "x".repeat(1000) })).toBe(true);
    expect(argumentLines({ text: "a\n".repeat(20) })).toEqual([{ name: "text", value: "a\n".repeat(8).trim(), clipped: 25 }]);
    expect(hasMore({ text: "a\n".repeat(20) })).toBe(true);
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`n${at}`, at]));
    expect([argumentLines(many).length, hasMore(many)]).toEqual([24, true]);
    expect(argumentsJson(many)).toContain('"n39": 39');
  });
  it("signs that disguise a text are visible", () => {
    expect(visible("a\u202egpj.exe\u0000\tb\r\nc")).toBe("a\\u202egpj.exe\\u0000\tb\nc");
    expect(argumentLines({ "p\u2066": "\u200bx" })).toEqual([{ name: "p\\u2066", value: "\\u200bx", clipped: 0 }]);
    expect(visible("👩‍🚀 e\u0301"), "joined signs stay").toBe("👩‍🚀 e\u0301");
  });
});

describe("steps of a message", () => {
  it("call waits only while the answer is in progress", () => {
    expect(waitingCall(answer("answering", [call("done"), call("waiting")]))?.state).toBe("waiting");
    expect(waitingCall(answer("answering", [call("running")]))).toBeUndefined();
    expect(waitingCall(answer("interrupted", [call("waiting")]))).toBeUndefined();
    expect(waitingCall(undefined)).toBeUndefined();
  });
  it("model waits for calls that run or wait", () => {
    expect([["done", "failed", "refused", "interrupted"], ["done", "running"], ["waiting"]].map((states) => isCalling(answer("answering", states.map((state) => call(state as Call["state"])))))).toEqual([false, true, true]);
    expect(isCalling({})).toBe(false);
  });
  it("texts of steps are part of the text, also when it is searched", () => {
    const message = answer("complete", [], "A bird");
    expect(allText(message)).toBe("First bird\n\nA bird");
    expect(matchesIn([message], "bird").map((one) => one.nth)).toEqual([0, 1]);
  });
});

it("origins and reasons have names in the language of the interface", () => {
  expect([originName("web"), originName("files-of-folder"), originName("weather")]).toEqual(["web", "shared folder", "weather"]);
  expect(leftOutLine({ cause: "model", reason: "the model cannot call tools" })).toBe("this model can't call tools");
  expect(leftOutLine({ cause: "limit", count: 1, reason: "tools exceed a limit" })).toBe("1 tool exceeds a limit");
  expect(leftOutLine({ cause: "failure", origin: "weather", reason: "weather did not start" }), "the name once").toBe("weather did not start");
  expect(leftOutLine({ cause: "failure", origin: "weather", reason: "it ended" })).toBe("weather: it ended");
  locale.set("zh-CN");
  expect(leftOutLine({ cause: "failure", origin: "web", reason: "it is off" })).toBe("网页：it is off");
  expect([leftOutLine({ cause: "comparison", reason: "" }), leftOutLine({ cause: "limit", count: 3, reason: "" })]).toEqual(["比较两个模型时不提供工具", "3 个工具超出限制"]);
  locale.set("en");
});
