// Arguments of a call as lines that people can read. A model wrote them, so each value is clipped and its controls are visible.
import { limitCombiningMarks } from "./markdown/combiningMarks";

export interface ArgumentLine {
  name: string;
  value: string;
  /** Number of characters that are not shown. */
  clipped: number;
}

const MOST_VALUE_CHARS = 400;
/** Most lines of a value. */
const MOST_VALUE_LINES = 8;
const MOST_LINES = 24;

/** Characters that change the direction or the look of the text around them, and control characters except tabs and line breaks. */
// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A text of a model or a server with visible controls: one could otherwise look like another. */
export function visible(text: string): string {
  const shown = text.replace(/\r\n/g, "\n").replace(CONTROLS, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return limitCombiningMarks(shown);
}

/** A value as people read it: texts as they are, all others as JSON. */
function plain(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** The part of a value that a line shows. */
function clip(text: string): string {
  return text.slice(0, MOST_VALUE_CHARS).split("\n").slice(0, MOST_VALUE_LINES).join("\n");
}

function line(name: string, value: unknown): ArgumentLine {
  const text = plain(value);
  const shown = clip(text);
  return { name: visible(clip(name)), value: visible(shown), clipped: text.length - shown.length };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The arguments by name; one line without a name if they are no object. */
export function argumentLines(args: unknown): ArgumentLine[] {
  if (args === undefined || args === null) return [];
  if (!isObject(args)) return [line("", args)];
  return Object.entries(args).slice(0, MOST_LINES).map(([name, value]) => line(name, value));
}

/** Whether the lines do not show all: clipped or nested values, or too many. */
export function hasMore(args: unknown): boolean {
  if (!isObject(args)) return argumentLines(args).some(({ clipped }) => clipped > 0);
  const values = Object.values(args);
  return values.length > MOST_LINES || values.some((value) => (typeof value === "object" && value !== null) || clip(plain(value)) !== plain(value));
}

/** The arguments as indented JSON. */
export function argumentsJson(args: unknown): string {
  return visible(JSON.stringify(args, undefined, 2) ?? "");
}
