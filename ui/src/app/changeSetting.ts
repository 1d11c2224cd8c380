// Changes a setting of the interface and reports a refusal.
import { uiSettings, type UiValues } from "../api/uiSettings.svelte";
import { toasts } from "../components";
import { errorLine } from "../i18n";

export function changeSetting(change: Partial<UiValues>): void {
  uiSettings.set(change).catch((error: unknown) => toasts.error(errorLine(error)));
}
