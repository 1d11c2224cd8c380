// The line of a logged request that was longer than the context.
import type { LoggedRequest } from "../../api/types";
import { t } from "../../i18n";

/** What was left out and how to avoid it; undefined if the request fits. */
export function leftOut({ truncated, prompt_tokens }: Pick<LoggedRequest, "truncated" | "prompt_tokens">): string | undefined {
  if (!truncated) return undefined;
  const { reason, tokens, images, context_tokens } = truncated;
  if (images && tokens === 0) return t("server.images_unseen", { images });
  const line = t(`server.left_out_${reason}`, { tokens, all: (prompt_tokens ?? 0) + tokens, room: context_tokens });
  return images ? `${line} ${t("server.left_out_images", { images })}` : line;
}
