// Names of tools and of their origins.
import { has, t } from "./locale.svelte";

/** The name of an origin: of a server, or of a part of this program. */
export function originName(origin: string): string {
  const key = `tools.origin_${origin.replaceAll("-", "_")}`;
  return has(key) ? t(key) : origin;
}

/** Reasons of the daemon that have a translation; all others have the words of a server or of the system. */
const REASONS: Readonly<Record<string, string>> = {
  "the model cannot call tools": "tools.left_out_model",
  "tools are not offered while two models are compared": "tools.left_out_compared",
};
const OVER_LIMIT = /^(\d+) tools? exceeds? a limit$/;

function reasonText(reason: string): string {
  const key = REASONS[reason];
  const count = OVER_LIMIT.exec(reason)?.[1];
  return key !== undefined ? t(key) : count !== undefined ? t("tools.left_out_limit", { count: Number(count) }) : reason;
}

/** Why tools were left out of an answer, in a line. Most errors of servers have the server's name already. */
export function leftOutLine({ origin, reason }: { origin?: string; reason: string }): string {
  const text = reasonText(reason);
  return origin === undefined || text.includes(origin) ? text : t("common.with_details", { text: originName(origin), details: text });
}
