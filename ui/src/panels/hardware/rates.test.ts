import { expect, it } from "vitest";
import type { KernelVariant } from "../../api/types";
import { fastest, rateOf } from "./rates";

const variant = (name: string, answers: number, prompts: number): KernelVariant => ({
  name, usable: true, in_use: false,
  rates: answers > 0 ? [{ type: "Q8_0", decode_bytes_per_second: 1, prefill_operations_per_second: 1 }, { type: "Q4_K", decode_bytes_per_second: answers, prefill_operations_per_second: prompts }] : [],
});

it("fastest variant can differ for answers and prompts", () => {
  const variants = [variant("a", 0, 0), variant("b", 20, 5), variant("c", 10, 50)];
  expect(fastest(variants, "decode_bytes_per_second")?.name).toBe("b");
  expect(fastest(variants, "prefill_operations_per_second")?.name).toBe("c");
  expect(fastest(variants.slice(0, 2), "decode_bytes_per_second"), "one has no rival").toBeUndefined();
  expect(variants.map((one) => rateOf(one)?.decode_bytes_per_second)).toEqual([undefined, 20, 10]);
});
