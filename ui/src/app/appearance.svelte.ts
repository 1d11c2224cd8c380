// Applies the settings for appearance and language to the page.
import { uiSettings } from "../api/uiSettings.svelte";
import { isLanguage, locale, systemLanguage } from "../i18n";
import { platform } from "../platform";
import { shown, type System } from "./theme.svelte";

export const TEXT_SIZES = { smallest: 75, largest: 200 };

/** Text size in percent, limited so that the page stays usable. */
export function textSize(percent: number): number {
  return Number.isFinite(percent) ? Math.min(TEXT_SIZES.largest, Math.max(TEXT_SIZES.smallest, percent)) : 100;
}

class Appearance {
  #system = $state.raw<System>({ contrast: false, dark: false });

  /** Keeps the page in step with the settings. Call it once, where effects are allowed. */
  apply(): void {
    const [contrast, dark] = [matchMedia("(prefers-contrast: more)"), matchMedia("(prefers-color-scheme: dark)")];
    const look = (): void => {
      this.#system = { contrast: contrast.matches, dark: dark.matches };
    };
    $effect.pre(() => {
      look();
      for (const one of [contrast, dark]) one.addEventListener("change", look);
      return () => [contrast, dark].forEach((one) => one.removeEventListener("change", look));
    });
    const root = document.documentElement;
    $effect.pre(() => {
      const theme = shown(uiSettings.values, this.#system);
      if (theme === undefined) delete root.dataset["theme"];
      else root.dataset["theme"] = theme;
    });
    $effect.pre(() => {
      root.style.fontSize = uiSettings.values.text_size === 100 ? "" : `${textSize(uiSettings.values.text_size)}%`;
      root.dataset["width"] = uiSettings.values.width;
    });
    $effect.pre(() => {
      const { language } = uiSettings.values;
      const current = isLanguage(language) ? language : systemLanguage();
      locale.set(current);
      // The tray and the system dialogs use the language of the page.
      void platform.setLanguage(current).catch(() => {});
    });
  }
}

export const appearance = new Appearance();
