// Command lines, and lines of names with values, as users type them.

/** Splits a command line at spaces outside of quotes. A backslash stays: Windows has it in paths. */
export function splitCommand(line: string): string[] {
  const parts: string[] = [];
  let part: string | undefined;
  let quote: string | undefined;
  for (const sign of line) {
    if (quote !== undefined) {
      if (sign === quote) quote = undefined;
      else part += sign;
    } else if (sign === '"' || sign === "'") {
      quote = sign;
      part ??= "";
    } else if (/\s/.test(sign)) {
      if (part !== undefined) parts.push(part);
      part = undefined;
    } else part = (part ?? "") + sign;
  }
  return part === undefined ? parts : [...parts, part];
}

/** A command with its arguments, in quotes where they are needed. */
export function commandLine(command: string, args: readonly string[] = []): string {
  return [command, ...args].map((part) => (part === "" || /[\s"']/.test(part) ? `"${part.replaceAll('"', '\\"')}"` : part)).join(" ");
}

/** Whether a command without arguments is probably a whole command line: only paths have spaces. */
export function isCommandLine(command: string): boolean {
  const text = command.trim();
  return /\s/.test(text) && !/^(?:[/~."']|[a-z]:)/i.test(text);
}

/** The lines of a text that are not empty. */
export function lines(text: string): string[] {
  return text.split(/\r?\n/).filter((line) => line.trim() !== "");
}

export interface Pairs {
  values: Record<string, string>;
  /** The first line without a name or a separator. */
  wrong?: string;
}

/** Reads a name and a value in each line: `NAME=value`, or `Name: value`. */
export function pairs(text: string, separator: "=" | ":"): Pairs {
  const values: Record<string, string> = {};
  for (const line of lines(text)) {
    const at = line.indexOf(separator);
    const name = line.slice(0, Math.max(0, at)).trim();
    if (name === "" || /\s/.test(name)) return { values, wrong: line.trim() };
    const value = line.slice(at + 1);
    values[name] = separator === ":" ? value.trim() : value;
  }
  return { values };
}

const MAX_NAME_CHARS = 64;

/** The nearest valid name of a server. */
export function validName(name: string): string {
  return name.trim().replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[._-]+|-+$/g, "").slice(0, MAX_NAME_CHARS);
}

/** A name that no other server has. */
export function freeName(name: string, taken: readonly string[]): string {
  for (let number = 2; ; number += 1) {
    const end = `-${number}`;
    const free = name.slice(0, MAX_NAME_CHARS - end.length) + end;
    if (!taken.includes(free)) return free;
  }
}
