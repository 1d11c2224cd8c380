/**
 * Whether a model fits into this computer's memory, and the sum behind that.
 *
 * The daemon refuses a model whose weights, context and work need more than is free, unless somebody insists; then parts of the
 * file are read from the disk again and again. The three words are these three cases. The weights are what the file is long, the
 * context is what its shape says; both are upper bounds, since a model may keep less for some layers.
 */

/** What a model's file says of its shape; absent numbers are unknown. */
export interface Shape {
  layers?: number;
  kvHeads?: number;
  keyLength?: number;
  valueLength?: number;
}

/** What this computer has, in bytes. */
export interface Room {
  totalBytes: number;
  availableBytes: number;
}

export type Verdict = "fits" | "slow" | "too_big" | "loaded" | "unknown";

/** The verdict and its sum. */
export interface Fit {
  verdict: Verdict;
  weightsBytes: number;
  /** None where the model's shape is not known before it is here. */
  contextBytes?: number;
  contextTokens: number;
  needBytes: number;
  room?: Room;
  /** Bytes that are missing from what is free, or from what there is. */
  shortBytes: number;
}

/** Bytes of one number of the attention cache, f16. */
const CACHE_NUMBER_BYTES = 2;

/** Bytes that a context of so many tokens takes; undefined where the shape is not known. */
export function contextBytes(shape: Shape, tokens: number): number | undefined {
  const { layers, kvHeads, keyLength, valueLength } = shape;
  if (!layers || !kvHeads || !keyLength) return undefined;
  return layers * kvHeads * (keyLength + (valueLength ?? keyLength)) * CACHE_NUMBER_BYTES * tokens;
}

/** The shape that `POST /api/show` tells in `model_info`, whose keys begin with the architecture's name. */
export function shapeOf(info: Record<string, unknown>): Shape {
  const architecture = info["general.architecture"];
  const number = (key: string): number | undefined => {
    const value = info[`${String(architecture)}.${key}`];
    // Some models have a number for each layer; the largest bounds all of them.
    if (Array.isArray(value)) {
      const numbers = value.filter((one): one is number => typeof one === "number");
      return numbers.length ? Math.max(...numbers) : undefined;
    }
    return typeof value === "number" ? value : undefined;
  };
  const heads = number("attention.head_count");
  const width = number("embedding_length");
  const perHead = heads && width ? width / heads : undefined;
  return {
    layers: number("block_count"),
    kvHeads: number("attention.head_count_kv") ?? heads,
    keyLength: number("attention.key_length") ?? perHead,
    valueLength: number("attention.value_length") ?? perHead,
  };
}

/** Judges a model by the length of its file, its shape and what the computer has. */
export function judge(weightsBytes: number, shape: Shape, contextTokens: number, room: Room | undefined): Fit {
  const kept = contextBytes(shape, contextTokens);
  const needBytes = weightsBytes + (kept ?? 0);
  const sum = { weightsBytes, contextBytes: kept, contextTokens, needBytes, room };
  if (!room || !weightsBytes) return { ...sum, verdict: "unknown", shortBytes: 0 };
  if (needBytes > room.totalBytes) return { ...sum, verdict: "too_big", shortBytes: needBytes - room.totalBytes };
  if (needBytes > room.availableBytes) return { ...sum, verdict: "slow", shortBytes: needBytes - room.availableBytes };
  return { ...sum, verdict: "fits", shortBytes: 0 };
}
