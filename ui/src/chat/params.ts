// Parameters of a chat, as `/api/chat` names them.

export interface Param {
  name: string;
  min: number;
  max: number;
  step: number;
  /** What the daemon takes where neither the chat nor the model says. */
  standard: number;
  /** Has no slider: a number that is typed. */
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

/** The numbers among a model's own parameters, as `/api/show` writes them: a name and a value per line. */
export function defaultsOf(parameters: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const line of parameters.split("\n")) {
    const [name, value] = line.trim().split(/\s+/, 2);
    const number = Number(value);
    if (name !== undefined && value !== undefined && Number.isFinite(number)) found[name] = number;
  }
  return found;
}

/** Context lengths to choose from, up to what the model was made for. */
export function contextSteps(most: number | undefined): number[] {
  if (most === undefined) return [];
  const steps: number[] = [];
  for (let step = 2048; step < most; step *= 2) steps.push(step);
  return [...steps, most];
}
