// Theme: the system's, or one that the user chose. The daemon stores colours and contrast as two settings; the interface shows
// them as one. `boot.js` does the same before the first paint.
import { uiSettings, type UiValues } from "../api/uiSettings.svelte";
import { changeSetting } from "./changeSetting";

export type Theme = "system" | "light" | "dark" | "contrast";
export const THEMES: readonly Theme[] = ["system", "light", "dark", "contrast"];

/** Preferences of the system. */
export interface System {
  contrast: boolean;
  dark: boolean;
}

/** The two settings as one theme. */
export function chosen({ theme, contrast }: Pick<UiValues, "theme" | "contrast">): Theme {
  return contrast === "high" ? "contrast" : theme;
}

/** The settings of a theme. A chosen colour theme overrides the system's contrast preference. */
export function settingsOf(theme: Theme): Partial<UiValues> {
  if (theme === "contrast") return { contrast: "high" };
  return { theme, contrast: theme === "system" ? "system" : "normal" };
}

/** The theme attribute of the page; `undefined` if the style sheets follow the system. */
export function shown({ theme, contrast }: Pick<UiValues, "theme" | "contrast">, system: System): Exclude<Theme, "system"> | undefined {
  if (contrast === "high" || (contrast === "system" && system.contrast)) return "contrast";
  if (theme !== "system") return theme;
  return contrast === "normal" && system.contrast ? (system.dark ? "dark" : "light") : undefined;
}

class ThemeChoice {
  get current(): Theme {
    return chosen(uiSettings.values);
  }

  set(theme: Theme): void {
    changeSetting(settingsOf(theme));
  }

  next(): void {
    const at = THEMES.indexOf(this.current);
    this.set(THEMES[(at + 1) % THEMES.length] ?? "system");
  }
}

export const theme = new ThemeChoice();
