// Puts on the page what the settings of the interface say of its looks and its language.
import { choices } from "../api/choices.svelte";
import { isLanguage, locale, systemLanguage } from "../i18n";
import { shell } from "../shell";
import { shown, type System } from "./theme.svelte";

export const TEXT_SIZES = { smallest: 75, largest: 200 };

/** Per cent that leave the page usable, whatever a file says. */
export function textSize(percent: number): number {
  return Number.isFinite(percent) ? Math.min(TEXT_SIZES.largest, Math.max(TEXT_SIZES.smallest, percent)) : 100;
}

class Looks {
  #system = $state.raw<System>({ contrast: false, dark: false });

  /** Keeps the page as the settings are; called once, where effects may be made. */
  keep(): void {
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
      const theme = shown(choices.now, this.#system);
      if (theme === undefined) delete root.dataset["theme"];
      else root.dataset["theme"] = theme;
    });
    $effect.pre(() => {
      root.style.fontSize = choices.now.text_size === 100 ? "" : `${textSize(choices.now.text_size)}%`;
      root.dataset["width"] = choices.now.width;
    });
    $effect.pre(() => {
      const { language } = choices.now;
      const spoken = isLanguage(language) ? language : systemLanguage();
      locale.set(spoken);
      // The tray and the dialogs of a window speak as the page does.
      void shell.setLanguage(spoken).catch(() => {});
    });
  }
}

export const looks = new Looks();
