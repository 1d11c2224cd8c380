import { expect, it } from "vitest";
import { SHADES, grains, outline } from "./stone";

const size = { width: 240, height: 60 };
const count = (paths: string[]) => paths.map((path) => path.split("M").length - 1);
const sum = (counts: number[]) => counts.reduce((all, one) => all + one, 0);

it("outline is closed and depends on its seed alone", () => {
  expect(outline(size, 3)).toBe(outline(size, 3));
  expect(outline(size, 3)).not.toBe(outline(size, 4));
  expect(outline(size, 3)).toMatch(/^M[\d. ]+C.*Z$/);
  const far = [...outline(size, 3).matchAll(/[\d.]+/g)].map((match) => Number(match[0]));
  expect(Math.max(...far), "it stays inside its box").toBeLessThanOrEqual(240);
});

it("fill level is bounded by one grain and all", () => {
  const all = sum(count(grains(size, 1, [])));
  expect(sum(count(grains(size, 0, [])))).toBe(0);
  expect(sum(count(grains(size, 1e-9, [])))).toBe(1);
  expect(sum(count(grains(size, 0.5, [])))).toBe(Math.round(all / 2));
  expect(sum(count(grains(size, 7, [])))).toBe(all);
});

it("neighbouring contexts have different shades", () => {
  const [first, second, third] = count(grains(size, 1, [2, 1, 1]));
  const all = sum(count(grains(size, 1, [])));
  expect(first).toBe(Math.round(all / 2));
  expect((second ?? 0) + (third ?? 0)).toBe(all - Math.round(all / 2));
  expect(grains(size, 1, [1]).length).toBe(SHADES);
});
