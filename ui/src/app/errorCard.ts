// Title, text, details and button of an ErrorCard.
import { ApiError } from "../api/client";
import { errorDetails, errorText, t } from "../i18n";
import { cureOf, type Button } from "./cures";

export interface ErrorWords {
  title: string;
  text: string;
  details?: { label: string; text: string; lang: string };
  cure?: Button;
}

/**
 * `title` is for an error response; an unreachable daemon has the same title everywhere. `retry` repeats the request, where it is not
 * repeated without a press.
 */
export function errorCard(error: unknown, title: string, retry?: () => void): ErrorWords {
  const cure = cureOf(error, retry);
  const button = cure === undefined ? {} : { cure };
  if (error instanceof ApiError && error.offline) return { title: t("common.offline"), text: t("common.offline_detail"), ...button };
  const details = errorDetails(error);
  return { title, text: errorText(error), ...button, ...(details === undefined ? {} : { details: { label: t("models.details"), text: details, lang: "en" } }) };
}
