// Shortcuts: the defaults of the tables, and the user's changes.
import { uiSettings } from "../api/uiSettings.svelte";
import { changeSetting } from "./changeSetting";
import { COMMANDS, defaultCombo } from "./commands.svelte";
import { PANELS } from "./panels";

export interface Shortcut {
  id: string;
  /** i18n key of the action. */
  label: string;
  /** Default key combination; empty for none. */
  usual: string;
  fixed: boolean;
}

const GO = "go_";

/** All actions that can have a shortcut: commands, then screens. */
export const SHORTCUTS: readonly Shortcut[] = [
  ...COMMANDS.map((command) => ({ id: command.id, label: `shell.do_${command.id}`, usual: defaultCombo(command), fixed: command.fixed ?? false })),
  ...PANELS.map(({ id, title }, at) => ({ id: GO + id, label: title, usual: `mod+${at + 1}`, fixed: false })),
];

/** The screen that a shortcut opens. */
export function screenOf(id: string): string | undefined {
  return id.startsWith(GO) ? id.slice(GO.length) : undefined;
}

/** Reserved by the system or the composer. */
const TAKEN = ["mod+c", "mod+v", "mod+x", "mod+a", "mod+z", "mod+shift+z", "mod+y", "mod+enter", "mod+shift+enter", "alt+arrowup", "alt+arrowdown"];
const MODIFIERS = ["control", "shift", "alt", "meta", "altgraph", "dead", "process", "unidentified"];

/** Why a key combination is not allowed: it is incomplete, or reserved. */
export function refusal(combo: string): "unfinished" | "plain" | "taken" | undefined {
  const key = combo.split("+").at(-1) ?? "";
  if (key === "" || MODIFIERS.includes(key)) return "unfinished";
  if (/\s|=/.test(combo)) return "taken";
  if (TAKEN.includes(combo)) return "taken";
  return /^(?:mod|alt)\+|\+alt\+/.test(combo) || /^(?:shift\+)?f\d{1,2}$/.test(combo) ? undefined : "plain";
}

/** Parses `new_chat=mod+e find=`, a setting that users may have written by hand; invalid parts are skipped. */
export function read(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of text.split(/\s+/)) {
    const at = part.indexOf("=");
    const [id, combo] = [part.slice(0, at), part.slice(at + 1)];
    const row = at > 0 ? SHORTCUTS.find((one) => one.id === id) : undefined;
    if (row !== undefined && !row.fixed && (combo === "" || refusal(combo) === undefined)) found.set(id, combo);
  }
  return found;
}

export function written(chosen: ReadonlyMap<string, string>): string {
  return [...chosen].map(([id, combo]) => `${id}=${combo}`).join(" ");
}

class Shortcuts {
  #chosen = $derived(read(uiSettings.values.shortcuts));

  /** The key combination of a command or a screen; `undefined` for none. */
  of(id: string): string | undefined {
    const combo = this.#chosen.get(id) ?? SHORTCUTS.find((one) => one.id === id)?.usual;
    return combo === "" ? undefined : combo;
  }

  /** The action of a key combination. */
  find(combo: string): Shortcut | undefined {
    return SHORTCUTS.find((one) => this.of(one.id) === combo);
  }

  changed(id: string): boolean {
    return this.#chosen.has(id);
  }

  get anyChanged(): boolean {
    return this.#chosen.size > 0;
  }

  /** Sets the key combination of a command; an empty one removes it, `undefined` resets it. */
  set(id: string, combo: string | undefined): void {
    const next = new Map(this.#chosen);
    const usual = SHORTCUTS.find((one) => one.id === id)?.usual;
    if (combo === undefined || combo === usual) next.delete(id);
    else next.set(id, combo);
    changeSetting({ shortcuts: written(next) });
  }

  reset(): void {
    changeSetting({ shortcuts: "" });
  }
}

export const shortcuts = new Shortcuts();
