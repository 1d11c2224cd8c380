// Names of tools and of their origins.
import { has, t } from "./locale.svelte";

/** The name of an origin: of a server, or of a part of this program. */
export function originName(origin: string): string {
  const key = `tools.origin_${origin.replaceAll("-", "_")}`;
  return has(key) ? t(key) : origin;
}

/** Why tools were left out of an answer, in a line. */
export function leftOutLine({ origin, reason }: { origin?: string; reason: string }): string {
  const key = `tools.left_out_${reason}`;
  const text = has(key) ? t(key) : reason;
  return origin === undefined ? text : t("common.with_details", { text: originName(origin), details: text });
}
