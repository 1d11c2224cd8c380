// Reports an error of an action in a place without room for it: a toast with its sentence and its button.
import { toasts } from "../components";
import { errorLine, errorText } from "../i18n";
import { cureOf } from "./cures";

/** Without a button, the toast also has the English details. */
export function reportError(error: unknown, retry?: () => void): void {
  const cure = cureOf(error, retry);
  toasts.show({ text: cure === undefined ? errorLine(error) : errorText(error), tone: "error", action: cure });
}
