// The headline of the savings: time, once enough is saved to mean something, else the share of reused tokens.
import { duration, number, t } from "../../i18n";

const MIN_SAVED_MS = 10_000;

export interface Headline {
  figure: string;
  words: string;
}

/** `undefined` before the first prompt. */
export function headline(savedMs: number, share: number | undefined): Headline | undefined {
  if (savedMs >= MIN_SAVED_MS) return { figure: duration(savedMs), words: t("cache.saved_today") };
  if (share === undefined) return undefined;
  return { figure: t("common.percent", { value: number(share * 100) }), words: t("cache.reused") };
}
