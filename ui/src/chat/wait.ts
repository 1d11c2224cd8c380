// Words for the time before the first token of an answer.
import { duration, t } from "../i18n";

/** A shorter wait needs no words. */
const SILENT_SECONDS = 1;

/** Whether the model is being loaded or reads the prompt, with the time; `undefined` at first. */
export function wait(model: string | undefined, isLoaded: boolean, seconds: number): string | undefined {
  if (seconds < SILENT_SECONDS) return undefined;
  const time = duration(seconds * 1000);
  if (isLoaded || model === undefined) return t("chat.reading_for", { time });
  return t("chat.loading_model", { model: model.replace(/:latest$/, ""), time });
}
