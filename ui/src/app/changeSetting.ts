// Changes a setting of the interface and reports a refusal.
import { uiSettings, type UiValues } from "../api/uiSettings.svelte";
import { reportError } from "./reportError";
export function changeSetting(change: Partial<UiValues>): void {
  uiSettings.set(change).catch((error: unknown) => reportError(error));
}
