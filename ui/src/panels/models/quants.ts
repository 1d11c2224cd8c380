/**
 * Choices of a model card among the model's variants: small, balanced and best.
 *
 * Balanced suits most computers: about four and a half bits per weight. Small is the smallest with usable quality, best the largest
 * that is still worth its size. Duplicate choices are left out.
 */

/** A variant of `/app/discover`. */
export interface Choice {
  name: string;
  parameters?: string;
  quantization?: string;
  size: number;
}

export type Role = "small" | "balanced" | "best";

/** Quantisations by role, preferred ones first. */
const PREFERRED: Record<Role, string[]> = {
  small: ["Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_XS", "Q3_K_L", "Q2_K"],
  balanced: ["Q4_K_M", "MXFP4", "Q4_K_S", "Q4_0", "IQ4_XS", "Q5_K_M"],
  best: ["Q8_0", "Q6_K", "Q5_K_M", "BF16", "F16"],
};

/** The choices, smallest first. */
export function named<T extends Choice>(variants: T[]): { role: Role; variant: T }[] {
  const sized = variants.filter((variant) => variant.size > 0).sort((a, b) => a.size - b.size);
  // Variants with different parameter counts differ in more than precision, so they are chosen by size.
  const kinds = new Set(sized.map((variant) => variant.parameters));
  const found = kinds.size > 1 ? bySize(sized) : byPrecision(sized);
  const seen = new Set<string>();
  return found.filter(({ variant }) => !seen.has(variant.name) && seen.add(variant.name));
}

function byPrecision<T extends Choice>(sized: T[]): { role: Role; variant: T }[] {
  const find = (role: Role) => {
    for (const wanted of PREFERRED[role]) {
      const variant = sized.find((one) => one.quantization?.toUpperCase() === wanted);
      if (variant) return { role, variant };
    }
    return undefined;
  };
  const roles: Role[] = ["small", "balanced", "best"];
  const found = roles.map(find).filter((one) => one !== undefined);
  return found.length ? found : bySize(sized);
}

function bySize<T extends Choice>(sized: T[]): { role: Role; variant: T }[] {
  const middle = sized[Math.floor((sized.length - 1) / 2)];
  const [first, last] = [sized[0], sized[sized.length - 1]];
  if (!first || !middle || !last) return [];
  if (sized.length === 1) return [{ role: "balanced", variant: first }];
  if (sized.length === 2) return [{ role: "small", variant: first }, { role: "best", variant: last }];
  return [{ role: "small", variant: first }, { role: "balanced", variant: middle }, { role: "best", variant: last }];
}
