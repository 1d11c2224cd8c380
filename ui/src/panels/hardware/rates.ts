// Measured rates of kernel variants, as the table shows them.
import type { KernelRate, KernelVariant } from "../../api/types";

/** Weights of most models that people download. */
export const SHOWN_TYPE = "Q4_K";

export function rateOf(variant: KernelVariant): KernelRate | undefined {
  return variant.rates?.find((rate) => rate.type === SHOWN_TYPE);
}

/** The fastest of several measured variants. */
export function fastest(variants: readonly KernelVariant[], what: "decode_bytes_per_second" | "prefill_operations_per_second"): KernelVariant | undefined {
  const measured = variants.filter((variant) => rateOf(variant) !== undefined);
  if (measured.length < 2) return undefined;
  return measured.reduce((best, next) => ((rateOf(next)?.[what] ?? 0) > (rateOf(best)?.[what] ?? 0) ? next : best));
}
