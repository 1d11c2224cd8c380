import { expect, it } from "vitest";
import type { UiValues } from "../api/uiSettings.svelte";
import { textSize } from "./appearance.svelte";
import { chosen, settingsOf, shown, THEMES } from "./theme.svelte";

type ThemeSettings = Pick<UiValues, "theme" | "contrast">;
const setting = (theme: ThemeSettings["theme"], contrast: ThemeSettings["contrast"] = "system"): ThemeSettings => ({ theme, contrast });

it("theme round-trips through its two settings", () => {
  for (const theme of THEMES) {
    const before = setting("dark", theme === "contrast" ? "system" : "high");
    expect(chosen({ ...before, ...settingsOf(theme) }), theme).toBe(theme);
  }
});

it("system theme and contrast apply only where they are chosen", () => {
  const check = (what: ThemeSettings, contrast: boolean, dark: boolean, expected: ReturnType<typeof shown>): void =>
    expect(shown(what, { contrast, dark }), JSON.stringify([what, contrast, dark])).toBe(expected);
  check(setting("system"), false, true, undefined);
  check(setting("system"), true, true, "contrast");
  check(setting("light"), true, true, "contrast");
  check(setting("light", "normal"), true, true, "light");
  check(setting("system", "normal"), true, true, "dark");
  check(setting("system", "normal"), false, true, undefined);
  check(setting("dark", "high"), false, false, "contrast");
});

it("text size stays readable for any stored value", () => {
  expect([textSize(100), textSize(1), textSize(9000), textSize(Number.NaN)]).toEqual([100, 75, 200, 100]);
});
