import { expect, it } from "vitest";
import { named } from "./quants";

const variants = (...rows: [string, number, string?][]) =>
  rows.map(([quantization, size, parameters = "8B"]) => ({ name: `m:${parameters}-${quantization}`, quantization, size, parameters }));
const check = (rows: [string, number, string?][], expected: string[]) =>
  expect(named(variants(...rows)).map(({ role, variant }) => `${role} ${variant.name}`)).toEqual(expected);

it("three precisions of a model are named", () => {
  check(
    [["Q8_0", 9], ["Q2_K", 3], ["Q3_K_M", 4], ["Q4_K_M", 5], ["F16", 16]],
    ["small m:8B-Q3_K_M", "balanced m:8B-Q4_K_M", "best m:8B-Q8_0"],
  );
});

it("missing and duplicate choices are left out", () => {
  check([["Q4_K_M", 5], ["Q8_0", 9]], ["balanced m:8B-Q4_K_M", "best m:8B-Q8_0"]);
  check([["Q5_K_M", 6]], ["balanced m:8B-Q5_K_M"]);
  check([], []);
});

it("variants with different parameter counts are named by size", () => {
  check(
    [["Q4_K_M", 1, "0.6B"], ["Q4_K_M", 5, "8B"], ["Q4_K_M", 20, "32B"]],
    ["small m:0.6B-Q4_K_M", "balanced m:8B-Q4_K_M", "best m:32B-Q4_K_M"],
  );
  check([["odd", 2, "8B"], ["odder", 3, "8B"]], ["small m:8B-odd", "best m:8B-odder"]);
});
