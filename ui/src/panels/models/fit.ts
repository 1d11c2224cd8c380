/**
 * Whether a model fits into this computer's memory.
 *
 * The daemon refuses a model whose weights, context and work space exceed the free memory, unless the load is forced; then parts of
 * the file are read from disk repeatedly. The verdicts are these three cases. Weights are the file's size, the context follows from
 * the model's shape; both are upper bounds, since some layers cache less.
 */

import { isSlow, type Room } from "../../api/hardware";
import type { Speed } from "../../api/types";

export type { Room };

/** Shape of a model; absent numbers are unknown. */
export interface Shape {
  layers?: number;
  kvHeads?: number;
  keyLength?: number;
  valueLength?: number;
}

export type Verdict = "fits" | "slow" | "too_big" | "loaded" | "missing" | "unknown";

/** A verdict with its figures. */
export interface Fit {
  verdict: Verdict;
  weightsBytes: number;
  /** Unknown until the model is installed. */
  contextBytes?: number;
  contextTokens: number;
  needBytes: number;
  room?: Room;
  /** Bytes missing from the free memory, or from the total. */
  shortBytes: number;
  /** Speed while the weights are in memory. */
  speed?: Speed;
}

/** Size of one cached number, f16. */
const CACHE_NUMBER_BYTES = 2;

/** Bytes of a context; `undefined` if the shape is unknown. */
export function contextBytes(shape: Shape, tokens: number): number | undefined {
  const { layers, kvHeads, keyLength, valueLength } = shape;
  if (!layers || !kvHeads || !keyLength) return undefined;
  return layers * kvHeads * (keyLength + (valueLength ?? keyLength)) * CACHE_NUMBER_BYTES * tokens;
}

/** The shape from `model_info` of `POST /api/show`, whose keys begin with the architecture's name. */
export function shapeOf(info: Record<string, unknown>): Shape {
  const architecture = info["general.architecture"];
  const number = (key: string): number | undefined => {
    const value = info[`${String(architecture)}.${key}`];
    // Some models have a number per layer; the largest is an upper bound.
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

/** Whether a model fits, but answers slowly. */
export function answersSlowly(fit: Fit): boolean {
  return fit.verdict === "fits" && isSlow(fit.speed);
}

/** Judges a model by its file size, shape and the memory of the computer. */
export function judge(weightsBytes: number, shape: Shape, contextTokens: number, room: Room | undefined, speed?: Speed): Fit {
  const cacheBytes = contextBytes(shape, contextTokens);
  const needBytes = weightsBytes + (cacheBytes ?? 0);
  const sum = { weightsBytes, contextBytes: cacheBytes, contextTokens, needBytes, room };
  if (!room || !weightsBytes) return { ...sum, verdict: "unknown", shortBytes: 0 };
  if (needBytes > room.totalBytes) return { ...sum, verdict: "too_big", shortBytes: needBytes - room.totalBytes };
  if (needBytes > room.availableBytes) return { ...sum, verdict: "slow", shortBytes: needBytes - room.availableBytes };
  return { ...sum, verdict: "fits", shortBytes: 0, ...(speed ? { speed } : {}) };
}
