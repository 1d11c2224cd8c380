// What an ErrorCard says of a request that failed: that the daemon does not answer, or else what it answered.
import type { ApiError } from "../api/client";
import { t, told } from "../i18n";

/** The title is for a daemon that answers; one that does not has the same title everywhere. */
export function trouble(error: ApiError, title: string): { title: string; text: string } {
  return error.offline ? { title: t("common.offline"), text: t("common.offline_detail") } : { title, text: told(error.message) };
}
