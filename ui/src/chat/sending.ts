// Which key press sends a message.
import type { UiValues } from "../api/uiSettings.svelte";

type Press = Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "isComposing" | "keyCode">;

/** Input methods report composition so, or by this code; Enter picks a word then. */
const COMPOSING = 229;

export function sends(press: Press, by: UiValues["send"]): boolean {
  if (press.key !== "Enter" || press.shiftKey || press.isComposing || press.keyCode === COMPOSING) return false;
  return by === "enter" || press.ctrlKey || press.metaKey;
}
