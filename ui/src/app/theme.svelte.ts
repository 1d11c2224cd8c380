// Theme: the system's, or one that the person chose. Remembered in this browser; `boot.js` sets it before the first paint.
export type Theme = "system" | "light" | "dark" | "contrast";
export const THEMES: readonly Theme[] = ["system", "light", "dark", "contrast"];

const KEY = "cairn.theme";

function isTheme(value: unknown): value is Theme {
  return THEMES.includes(value as Theme);
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return isTheme(value) ? value : "system";
  } catch {
    return "system";
  }
}

class ThemeChoice {
  current = $state<Theme>(typeof localStorage === "undefined" ? "system" : stored());

  set(theme: Theme): void {
    this.current = theme;
    const root = document.documentElement;
    if (theme === "system") delete root.dataset["theme"];
    else root.dataset["theme"] = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // The choice holds until the page is closed.
    }
  }

  next(): void {
    const at = THEMES.indexOf(this.current);
    this.set(THEMES[(at + 1) % THEMES.length] ?? "system");
  }
}

export const theme = new ThemeChoice();
