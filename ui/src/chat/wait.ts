// Words for the time before the first token of an answer.
import type { PromptReading, WeightsLoading } from "../api/chats";
import { bytes, duration, number, percent, t } from "../i18n";

/** A shorter wait needs no words. */
const SILENT_SECONDS = 1;
/** Screen readers announce the progress in steps of this many percent. */
const ANNOUNCED_PERCENT = 25;

/** Whether the model is being loaded or reads the prompt, with the time; `undefined` at first. */
export function wait(model: string | undefined, isLoaded: boolean, seconds: number): string | undefined {
  if (seconds < SILENT_SECONDS) return undefined;
  const time = duration(seconds * 1000);
  if (isLoaded || model === undefined) return t("chat.reading_for", { time });
  return t("chat.loading_model", { model: model.replace(/:latest$/, ""), time });
}

/** The progress of a model's weights. */
export function loading(model: string | undefined, { bytes: done, total_bytes }: WeightsLoading): string {
  const name = (model ?? "").replace(/:latest$/, "");
  return t("chat.loading_bytes", { model: name, done: bytes(done), total: bytes(total_bytes) });
}

/** The progress of a prompt, which arrived some seconds ago, with the time left. */
export function reading({ tokens, total_tokens, left_ms }: PromptReading, seconds: number): string {
  const progress = t("chat.reading_tokens", { done: number(tokens), total: number(total_tokens) });
  if (left_ms === undefined) return progress;
  // In whole seconds, and never none before the answer.
  const left = Math.max(1, Math.round(left_ms / 1000 - seconds));
  return t("chat.reading_left", { reading: progress, time: t("common.estimate", { value: duration(left * 1000) }) });
}

/** The progress for screen readers, which changes a few times only. */
export function announced({ tokens, total_tokens }: PromptReading): string {
  const share = Math.floor(((100 * tokens) / total_tokens) / ANNOUNCED_PERCENT) * ANNOUNCED_PERCENT;
  return share > 0 ? t("chat.reading_percent", { percent: percent(share, 100) }) : t("chat.reading");
}
