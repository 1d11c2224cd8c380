// Commands of shortcuts and the palette, in one table. Screens register handlers for theirs.
import { isMac } from "../components";
import { platform } from "../platform";

export interface Command {
  id: string;
  /** `mod` is Cmd on a Mac and Ctrl elsewhere. */
  combo?: string;
  /** Its shortcut in a browser, which keeps some shortcuts for itself. */
  browserCombo?: string;
  /** Needs the chat screen, which is opened for it. */
  chat?: boolean;
  /** Acts on the shown chat; without one it is not in the palette. */
  shown?: boolean;
  /** Not in the palette. */
  hidden?: boolean;
  /** The shortcut cannot be changed: closing dialogs depends on it. */
  fixed?: boolean;
}

export const COMMANDS: readonly Command[] = [
  { id: "new_chat", combo: "mod+n", browserCombo: "alt+n", chat: true },
  { id: "new_temporary", combo: "mod+shift+n", browserCombo: "shift+alt+n", chat: true },
  { id: "palette", combo: "mod+k", hidden: true },
  { id: "find", combo: "mod+f", chat: true },
  { id: "search_chats", combo: "mod+shift+f", chat: true },
  { id: "model", combo: "mod+l", chat: true },
  { id: "sidebar", combo: "mod+b", chat: true },
  { id: "inspector", combo: "mod+i", chat: true },
  { id: "regenerate", combo: "mod+r", chat: true },
  { id: "copy_answer", combo: "mod+shift+c", chat: true },
  { id: "copy_code", combo: "mod+shift+;", chat: true },
  { id: "stop", combo: "escape", chat: true, hidden: true, fixed: true },
  { id: "compare", chat: true },
  { id: "read_answer", chat: true, shown: true },
  { id: "chat_fork", chat: true, shown: true },
  { id: "chat_rename", chat: true, shown: true },
  { id: "chat_pin", chat: true, shown: true },
  { id: "chat_move", chat: true, shown: true },
  { id: "chat_delete", chat: true, shown: true },
  { id: "chat_export_md", chat: true, shown: true },
  { id: "chat_export_json", chat: true, shown: true },
  { id: "export_all", chat: true },
  { id: "import_chats", chat: true },
  { id: "import_ollama", chat: true },
  { id: "trash", chat: true },
  { id: "import_model" },
  { id: "downloads", combo: "mod+shift+j" },
  { id: "tools" },
  { id: "settings", combo: "mod+," },
  { id: "shortcuts", combo: "mod+/" },
  { id: "theme" },
  { id: "language" },
];

/** The default shortcut of a command where the interface runs. */
export function defaultCombo({ combo = "", browserCombo = combo }: Command, kind = platform.kind): string {
  return kind === "browser" ? browserCombo : combo;
}

/** Returns `false` if the command did not apply. */
export type Handler = () => unknown;

class Commands {
  #handlers = new Map<string, Handler>();
  #waiting: string | undefined;

  /** Registers handlers until the returned function is called. */
  handle(handlers: Record<string, Handler>): () => void {
    for (const [id, handler] of Object.entries(handlers)) this.#handlers.set(id, handler);
    const waiting = this.#waiting;
    if (waiting !== undefined && waiting in handlers) {
      this.#waiting = undefined;
      // A screen that has just been mounted finishes its first paint before it runs a command.
      setTimeout(() => this.run(waiting), 50);
    }
    return () => {
      for (const [id, handler] of Object.entries(handlers)) if (this.#handlers.get(id) === handler) this.#handlers.delete(id);
    };
  }

  can(id: string): boolean {
    return this.#handlers.has(id);
  }

  run(id: string): boolean {
    const handler = this.#handlers.get(id);
    return handler !== undefined && handler() !== false;
  }

  /** Runs a command as soon as a screen has registered a handler for it. */
  later(id: string): void {
    this.#waiting = id;
  }
}

export const commands = new Commands();

/** The shortcut of a key press, as the table spells it. */
export function comboOf(event: Pick<KeyboardEvent, "key" | "code" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">, mac: boolean = isMac()): string {
  const mod = mac ? event.metaKey : event.ctrlKey;
  const digit = /^Digit(\d)$/.exec(event.code)?.[1];
  // With Alt, some systems produce other characters.
  const letter = event.altKey ? /^Key([A-Z])$/.exec(event.code)?.[1]?.toLowerCase() : undefined;
  const key = event.code === "Semicolon" ? ";" : (digit ?? letter ?? event.key.toLowerCase());
  return [mod && "mod", event.shiftKey && "shift", event.altKey && "alt", key].filter(Boolean).join("+");
}
