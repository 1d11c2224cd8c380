// Groups of settings on the screen, and their search.
import type { Setting } from "../../api/types";

/** Groups in the order of the screen; others follow. `ui` has controls of its own. */
const ORDER = ["chats", "models", "downloads", "engine", "cache", "server", "sharing", "network", "log"];
const OWN = "ui";

export interface Group {
  id: string;
  settings: Setting[];
}

/** Whether a text contains all words. */
export function matches(words: string, text: string): boolean {
  const all = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** Groups with the settings whose texts contain all words. */
export function groups(settings: readonly Setting[], words: string, texts: (setting: Setting) => string): Group[] {
  const keys = settings.map((setting) => setting.key);
  const found = settings.filter((setting, at) => {
    // A key that occurs twice is one setting.
    if (keys.indexOf(setting.key) !== at) return false;
    const text = `${texts(setting)} ${setting.key} ${setting.env ?? ""} ${setting.flag ?? ""} ${setting.about}`;
    return setting.group !== OWN && matches(words, text);
  });
  const ids = [...new Set(found.map((setting) => setting.group))];
  const place = (id: string) => (ORDER.includes(id) ? ORDER.indexOf(id) : ORDER.length);
  ids.sort((a, b) => place(a) - place(b));
  return ids.map((id) => ({ id, settings: found.filter((setting) => setting.group === id) }));
}
