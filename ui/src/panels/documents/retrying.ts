// Whether a file that was refused can be sent again.
import type { ErrorBody } from "../../api/types";

/** Errors of documents that another attempt may not have. The others are errors of the file. */
const PASSING = ["document_timeout", "document_failed"];

/** Whether another attempt may succeed. */
export function mayPass(error: unknown): boolean {
  const code = (error as Partial<ErrorBody> | undefined)?.code;
  return !code?.startsWith("document_") || PASSING.includes(code);
}
