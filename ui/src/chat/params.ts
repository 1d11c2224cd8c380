// Parameters of a chat, as `/api/chat` names them.

export interface Param {
  name: string;
  min: number;
  max: number;
  step: number;
  /** The daemon's default. */
  standard: number;
  /** A text field instead of a slider. */
  typed?: boolean;
}

export const BASIC: readonly Param[] = [
  { name: "temperature", min: 0, max: 2, step: 0.05, standard: 0.8 },
  { name: "top_p", min: 0, max: 1, step: 0.01, standard: 0.9 },
  { name: "num_predict", min: -1, max: 8192, step: 1, standard: -1, typed: true },
];

export const ADVANCED: readonly Param[] = [
  { name: "top_k", min: 0, max: 200, step: 1, standard: 40 },
  { name: "min_p", min: 0, max: 1, step: 0.01, standard: 0 },
  { name: "repeat_penalty", min: 0.5, max: 2, step: 0.01, standard: 1.1 },
  { name: "presence_penalty", min: -2, max: 2, step: 0.05, standard: 0 },
  { name: "frequency_penalty", min: -2, max: 2, step: 0.05, standard: 0 },
  { name: "seed", min: 0, max: 2 ** 31 - 1, step: 1, standard: 0, typed: true },
];

/** The numeric parameters of a model, from the lines of `/api/show`: a name and a value per line. */
export function defaultsOf(parameters: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const line of parameters.split("\n")) {
    const [name, value] = line.trim().split(/\s+/, 2);
    const number = Number(value);
    if (name !== undefined && value !== undefined && Number.isFinite(number)) found[name] = number;
  }
  return found;
}

/** Context sizes to choose from, up to the model's maximum. */
export function contextSteps(most: number | undefined): number[] {
  if (most === undefined) return [];
  const steps: number[] = [];
  for (let step = 2048; step < most; step *= 2) steps.push(step);
  return [...steps, most];
}
