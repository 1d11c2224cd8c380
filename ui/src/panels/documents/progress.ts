// Progress of vectors, and the intervals at which it is requested.
import type { CollectionDocument, MeaningSearch } from "../../api/collections";

/** Interval while documents are read or vectors are computed. */
export const WORKING_MS = 1_000;
/** Interval otherwise: another window, or the command line, may change a collection. */
export const IDLE_MS = 5_000;

/** The computed vectors and all of them; zeros if none are being computed. */
export function vectorCounts(status: MeaningSearch | CollectionDocument["status"]): { done: number; total: number } {
  return status.state === "embedding" ? { done: status.done, total: status.total } : { done: 0, total: 0 };
}
