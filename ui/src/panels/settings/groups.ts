// Settings as a person looks for them: groups in their order, found by words of any language that they are told in.
import type { Setting } from "../../api/types";

/** Groups of the table, in the order of the screen; others follow. `ui` has controls of its own. */
const ORDER = ["chats", "models", "downloads", "engine", "cache", "server", "sharing", "network", "log"];
const OWN = "ui";

export interface Group {
  id: string;
  settings: Setting[];
}

/** Whether all words are somewhere in a text. */
export function matches(words: string, text: string): boolean {
  const all = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

/** The groups of settings that have all the words somewhere in their texts. */
export function groups(settings: readonly Setting[], words: string, texts: (setting: Setting) => string): Group[] {
  const keys = settings.map((setting) => setting.key);
  const found = settings.filter((setting, at) => {
    // A key that a daemon tells twice is one setting all the same.
    if (keys.indexOf(setting.key) !== at) return false;
    const text = `${texts(setting)} ${setting.key} ${setting.env ?? ""} ${setting.flag ?? ""} ${setting.about}`;
    return setting.group !== OWN && matches(words, text);
  });
  const ids = [...new Set(found.map((setting) => setting.group))];
  const place = (id: string) => (ORDER.includes(id) ? ORDER.indexOf(id) : ORDER.length);
  ids.sort((a, b) => place(a) - place(b));
  return ids.map((id) => ({ id, settings: found.filter((setting) => setting.group === id) }));
}
