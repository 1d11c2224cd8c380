import { expect, it } from "vitest";
import type { CallState } from "../api/chats";
import { whereabouts, type Facts } from "./whereabouts";

const facts: Facts = {
  messages: [{}, { model: "pebble" }],
  before: 0,
  model: "pebble",
  remotesOf: (model) => ({ pebble: [], big: ["gpu"], huge: ["gpu", "office"] })[model],
  offered: [],
  tiers: [{ tier: "ram" }, { tier: "ssd" }],
  temporary: false,
};

it("chat stays here if all its models and tiers are here", () => {
  expect(whereabouts(facts)).toEqual({ kind: "here" });
});

it("chat with models of remotes is sent to them, also by the next answer", () => {
  expect(whereabouts({ ...facts, messages: [{ model: "big" }, { model: "huge" }] })).toEqual({ kind: "models", remotes: ["gpu", "office"] });
  expect(whereabouts({ ...facts, model: "big", before: 9, tiers: undefined })).toEqual({ kind: "models", remotes: ["gpu"] });
});

it("chat is cached in the remote tier, unless it is temporary", () => {
  const tiers = [{ tier: "ram" }, { tier: "remote" }];
  expect(whereabouts({ ...facts, tiers })).toEqual({ kind: "cache" });
  expect(whereabouts({ ...facts, tiers, temporary: true })).toEqual({ kind: "here" });
});

it("nothing is claimed without the facts", () => {
  expect(whereabouts({ ...facts, messages: [{ model: "deleted" }] })).toBeUndefined();
  expect(whereabouts({ ...facts, before: 1 })).toBeUndefined();
  expect(whereabouts({ ...facts, tiers: undefined })).toBeUndefined();
  expect(whereabouts({ ...facts, messages: [], model: undefined })).toBeUndefined();
});

it("tools that are offered or were called may send parts of it, those of the folder do not", () => {
  expect(whereabouts({ ...facts, offered: ["files-of-folder"] })).toEqual({ kind: "here" });
  expect(whereabouts({ ...facts, offered: ["files-of-folder", "web"] })).toEqual({ kind: "tools" });
  const called = (state: CallState) => [{ steps: [{ content: "", calls: [{ id: "1", function: "f", origin: "weather", tool: "f", arguments: {}, state }] }] }];
  expect(whereabouts({ ...facts, messages: called("failed") })).toEqual({ kind: "tools" });
  expect(whereabouts({ ...facts, messages: called("refused") })).toEqual({ kind: "here" });
  expect(whereabouts({ ...facts, model: "big", offered: ["web"] }), "all of it is sent").toEqual({ kind: "models", remotes: ["gpu"] });
});
