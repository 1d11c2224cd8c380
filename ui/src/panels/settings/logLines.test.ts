import { expect, it } from "vitest";
import { linesFrom } from "./logLines";

it("lines are shown from a level, with those that continue them", () => {
  const lines = ["2026-01-01T00:00:00Z  INFO cairn: WARN is a word here", "2026-01-01T00:00:01Z  WARN cairn: slow", "  its second line", "2026-01-01T00:00:02Z ERROR cairn: lost", "2026-01-01T00:00:03Z DEBUG cairn: x"];
  const shown = (least: "all" | "warn" | "error") => linesFrom(lines, least).map(({ level, text }) => `${level} ${text.slice(-6)}`);
  expect(shown("all")).toHaveLength(5);
  expect(shown("warn")).toEqual(["warn : slow", "warn d line", "error : lost"]);
  expect(shown("error")).toEqual(["error : lost"]);
});
