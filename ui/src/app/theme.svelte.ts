// Theme: the system's, or one that the person chose. The daemon's settings have it as two, colours and contrast, which people
// choose as one here. `boot.js` does the same before the first paint.
import { choices, type Choices } from "../api/choices.svelte";
import { choose } from "./choose";

export type Theme = "system" | "light" | "dark" | "contrast";
export const THEMES: readonly Theme[] = ["system", "light", "dark", "contrast"];

/** What the system asks for. */
export interface System {
  contrast: boolean;
  dark: boolean;
}

/** The one that a person would say they chose. */
export function chosen({ theme, contrast }: Pick<Choices, "theme" | "contrast">): Theme {
  return contrast === "high" ? "contrast" : theme;
}

/** The settings for what a person chose. Whoever wants certain colours wants them whatever the system says of contrast. */
export function settingsOf(theme: Theme): Partial<Choices> {
  if (theme === "contrast") return { contrast: "high" };
  return { theme, contrast: theme === "system" ? "system" : "normal" };
}

/** What the page is to look like; `undefined` where style sheets follow the system by themselves. */
export function shown({ theme, contrast }: Pick<Choices, "theme" | "contrast">, system: System): Exclude<Theme, "system"> | undefined {
  if (contrast === "high" || (contrast === "system" && system.contrast)) return "contrast";
  if (theme !== "system") return theme;
  return contrast === "normal" && system.contrast ? (system.dark ? "dark" : "light") : undefined;
}

class ThemeChoice {
  get current(): Theme {
    return chosen(choices.now);
  }

  set(theme: Theme): void {
    choose(settingsOf(theme));
  }

  next(): void {
    const at = THEMES.indexOf(this.current);
    this.set(THEMES[(at + 1) % THEMES.length] ?? "system");
  }
}

export const theme = new ThemeChoice();
