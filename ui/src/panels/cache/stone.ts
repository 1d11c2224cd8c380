/**
 * Drawing of a tier: a stone that is filled with grains from the left.
 *
 * The outline is a superellipse with a slow wobble that depends on the seed alone. Grains fill it column by column up to
 * `used / budget`; a run of one shade is one cached context.
 */

/** Size of the view box and of a cell. */
export interface StoneSize {
  width: number;
  height: number;
}

/** Size and spacing of grains. */
const GRAIN = 6.1;
const STEP = 7;
/** Number of shades; neighbouring runs differ. */
export const SHADES = 4;

/** Pseudo-random numbers in 0..1 that depend on the seed alone. */
function numbers(seed: number): () => number {
  let state = (seed * 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4294967296;
  };
}

/** The closed path of an outline. */
export function outline({ width, height }: StoneSize, seed: number): string {
  const next = numbers(seed);
  const [phase1, phase2, lean] = [next() * 6.283, next() * 6.283, (next() - 0.5) * 0.05];
  const [rx, ry, count] = [width / 2 - 1.5, height / 2 - 1.5, 40];
  const points = Array.from({ length: count }, (_, at) => {
    const angle = (at / count) * 2 * Math.PI;
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    const bulge = 1 - 0.02 * (1 + Math.sin(2 * angle + phase1)) - 0.018 * (1 + Math.sin(3 * angle + phase2));
    // Between an ellipse and a rounded box: flatter at the bottom.
    const exponent = s > 0 ? 2.5 : 2.1;
    const [x, y] = [Math.sign(c) * Math.abs(c) ** (2 / exponent), Math.sign(s) * Math.abs(s) ** (2 / exponent)];
    return [width / 2 + rx * bulge * (x + lean * y), height / 2 + ry * bulge * y] as const;
  });
  const at = (index: number) => points[(index + count) % count] as readonly [number, number];
  // Catmull-Rom spline through the points, as cubic Béziers.
  const curves = points.map((_, index) => {
    const [a, b, c, d] = [at(index - 1), at(index), at(index + 1), at(index + 2)];
    const one = [b[0] + (c[0] - a[0]) / 6, b[1] + (c[1] - a[1]) / 6];
    const two = [c[0] - (d[0] - b[0]) / 6, c[1] - (d[1] - b[1]) / 6];
    return `C${[...one, ...two, ...c].map((value) => value.toFixed(1)).join(" ")}`;
  });
  return `M${at(0).map((value) => value.toFixed(1)).join(" ")}${curves.join("")}Z`;
}

/** One path per shade: grains for a fill level and lengths of contexts. */
export function grains({ width, height }: StoneSize, fraction: number, runs: number[]): string[] {
  const paths = Array.from({ length: SHADES }, () => "");
  if (fraction <= 0) return paths;
  const [columns, rows] = [Math.floor((width - 1) / STEP), Math.ceil((height + 2) / STEP)];
  // A non-empty tier shows one grain at least: in the first column inside the outline at half height.
  const [first, full] = [1, Math.min(1, fraction)];
  const filled = Math.max(1, Math.round((columns - first) * rows * full));
  const ends = shares(runs, filled);
  let run = 0;
  for (let index = 0; index < filled; index += 1) {
    while (run < ends.length - 1 && index >= (ends[run] as number)) run += 1;
    const column = first + Math.floor(index / rows);
    // A short last column is centred, where the outline does not hide it.
    const inLast = filled - Math.floor(index / rows) * rows;
    const offset = inLast < rows ? Math.floor((rows - inLast) / 2) : 0;
    const row = (index % rows) + offset;
    paths[run % SHADES] += `M${(column * STEP + 0.5).toFixed(1)} ${(row * STEP - 1).toFixed(1)}h${GRAIN}v${GRAIN}h-${GRAIN}z`;
  }
  return paths;
}

/** Ends of runs in grains; runs too short for a grain are merged with the next. */
function shares(runs: number[], filled: number): number[] {
  const total = runs.reduce((sum, run) => sum + run, 0);
  if (total <= 0) return [filled];
  let sum = 0;
  const ends = runs.map((run) => {
    sum += run;
    return Math.round((sum / total) * filled);
  });
  return ends.filter((end, index) => index === 0 ? end > 0 : end > (ends[index - 1] as number));
}
