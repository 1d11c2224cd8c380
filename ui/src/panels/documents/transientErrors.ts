// Errors of files that another attempt may not have.
import type { ErrorBody } from "../../api/types";

/** Such errors of documents. The others are errors of the file. */
const TRANSIENT = ["document_timeout", "document_failed"];

/** Whether another attempt may succeed. */
export function isTransient(error: unknown): boolean {
  const code = (error as Partial<ErrorBody> | undefined)?.code;
  return !code?.startsWith("document_") || TRANSIENT.includes(code);
}
