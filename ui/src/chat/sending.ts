// Which press sends what was typed.
import type { Choices } from "../api/choices.svelte";

type Press = Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "isComposing" | "keyCode">;

/** An input method says so, or with this code, while it composes; Enter picks a word then. */
const COMPOSING = 229;

export function sends(press: Press, by: Choices["send"]): boolean {
  if (press.key !== "Enter" || press.shiftKey || press.isComposing || press.keyCode === COMPOSING) return false;
  return by === "enter" || press.ctrlKey || press.metaKey;
}
