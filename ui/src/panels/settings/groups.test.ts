import { expect, it } from "vitest";
import type { Setting } from "../../api/types";
import { groups } from "./groups";

const setting = (key: string, part: Partial<Setting> = {}): Setting => ({
  key, group: key.split(".")[0] ?? "", kind: "text", default_about: "", origin: "default", applies: "now", restart: false, about: "", ...part,
});
const all = [
  setting("network.proxy", { env: "CAIRN_PROXY", about: "The proxy" }),
  setting("zebra.new", { about: "Unheard of" }),
  setting("cache.ram"),
  setting("cache.ttl"),
  setting("ui.theme"),
  setting("cache.ram"),
];
const labels: Record<string, string> = { "cache.ram": "Memory for contexts 内存" };
const check = (words: string, expected: string[]) =>
  expect(
    groups(all, words, (one) => labels[one.key] ?? "").map((group) => `${group.id}: ${group.settings.map((one) => one.key).join(" ")}`),
    words,
  ).toEqual(expected);

it("groups are ordered, unknown ones last, without those that have their own controls", () => {
  check("", ["cache: cache.ram cache.ttl", "network: network.proxy", "zebra: zebra.new"]);
});

it("settings are found by label, key, variable and description", () => {
  check("memory", ["cache: cache.ram"]);
  check("内存", ["cache: cache.ram"]);
  check("cairn_proxy", ["network: network.proxy"]);
  check("the PROXY", ["network: network.proxy"]);
  check("unheard", ["zebra: zebra.new"]);
  check("nothing at all", []);
});
