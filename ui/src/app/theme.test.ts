import { expect, it } from "vitest";
import type { Choices } from "../api/choices.svelte";
import { textSize } from "./looks.svelte";
import { chosen, settingsOf, shown, THEMES } from "./theme.svelte";

type Looks = Pick<Choices, "theme" | "contrast">;
const looks = (theme: Looks["theme"], contrast: Looks["contrast"] = "system"): Looks => ({ theme, contrast });

it("puts a theme into two settings and finds it there again", () => {
  for (const theme of THEMES) {
    const before = looks("dark", theme === "contrast" ? "system" : "high");
    expect(chosen({ ...before, ...settingsOf(theme) }), theme).toBe(theme);
  }
});

it("follows the system as far as it is asked to", () => {
  const check = (what: Looks, contrast: boolean, dark: boolean, expected: ReturnType<typeof shown>): void =>
    expect(shown(what, { contrast, dark }), JSON.stringify([what, contrast, dark])).toBe(expected);
  check(looks("system"), false, true, undefined);
  check(looks("system"), true, true, "contrast");
  check(looks("light"), true, true, "contrast");
  check(looks("light", "normal"), true, true, "light");
  check(looks("system", "normal"), true, true, "dark");
  check(looks("system", "normal"), false, true, undefined);
  check(looks("dark", "high"), false, false, "contrast");
});

it("keeps the text readable, whatever a file says", () => {
  expect([textSize(100), textSize(1), textSize(9000), textSize(Number.NaN)]).toEqual([100, 75, 200, 100]);
});
