import { expect, it } from "vitest";
import type { Setting } from "../api/types";
import { readSpan } from "../components/quantity";
import { durationWords } from "./settings";

const setting = (key: string, unit = "duration"): Setting => ({ key, unit, about: "" }) as Setting;

it("defaults of durations can be shown as a number and a unit", () => {
  for (const [key, value] of [["engine.keep_alive", "5m"], ["cache.ttl", "30d"], ["downloads.stall", "30s"]] as const) {
    const units = durationWords(setting(key))?.units.map((unit) => unit.value) ?? [];
    expect(readSpan(value, units), key).toBeDefined();
  }
});

it("durations without an end have the daemon's value", () => {
  expect([durationWords(setting("engine.keep_alive"))?.endless?.value, durationWords(setting("cache.ttl"))?.endless?.value, durationWords(setting("downloads.stall"))?.endless]).toEqual(["-1", "never", undefined]);
  expect([durationWords(setting("engine.keep_alive", "list")), durationWords(setting("log.filter"))], "other settings are texts").toEqual([undefined, undefined]);
});
