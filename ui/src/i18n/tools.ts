// Names of tools and of their origins.
import type { ToolsLeftOut } from "../api/types";
import { has, t } from "./locale.svelte";

/** The name of an origin: of a server, or of a part of this program. */
export function originName(origin: string): string {
  const key = `tools.origin_${origin.replaceAll("-", "_")}`;
  return has(key) ? t(key) : origin;
}

/** Why tools were left out of an answer, in a line. Most errors of servers have the server's name already. */
export function leftOutLine({ cause, origin, count, reason }: ToolsLeftOut): string {
  if (cause !== "failure") return t(`tools.left_out_${cause}`, { count: count ?? 0 });
  return origin === undefined || reason.includes(origin) ? reason : t("common.with_details", { text: originName(origin), details: reason });
}
