// Title, text and details of an ErrorCard.
import { ApiError } from "../api/client";
import { errorDetails, errorText, t } from "../i18n";

export interface ErrorWords {
  title: string;
  text: string;
  details?: { label: string; text: string; lang: string };
}

/** `title` is for an error response; an unreachable daemon has the same title everywhere. */
export function errorCard(error: unknown, title: string): ErrorWords {
  if (error instanceof ApiError && error.offline) return { title: t("common.offline"), text: t("common.offline_detail") };
  const details = errorDetails(error);
  return { title, text: errorText(error), ...(details === undefined ? {} : { details: { label: t("models.details"), text: details, lang: "en" } }) };
}
