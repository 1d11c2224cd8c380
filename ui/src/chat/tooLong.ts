// Checks before sending whether a message fits into the context.
import type { Options } from "../api/chats";
import { contextSteps } from "./params";

/** A message that does not fit. */
export interface TooLong {
  tokens: number;
  /** Context size, in tokens. */
  room: number;
  /** The smallest larger context with room for the message and an answer, where the model allows one. */
  larger?: number | undefined;
}

/** Tokens that the template adds to a message. */
const TEMPLATE_TOKENS = 32;
/** Room for an answer in a larger context. */
const ANSWER_TOKENS = 512;

/** Context size of a chat: its own option, or the model's size, at most what the model allows. */
export function contextTokens(options: Options, ofModel: number | undefined, most: number | undefined): number | undefined {
  const own = options["num_ctx"];
  if (typeof own !== "number" || own <= 0) return ofModel;
  return most === undefined ? own : Math.min(own, most);
}

/** Checks a text; `count` counts its tokens and is called only where the text may be too long. */
export async function checkLength(text: string, room: number | undefined, most: number | undefined, count: () => Promise<number>): Promise<TooLong | "fits"> {
  // A token has one byte at least.
  if (room === undefined || new TextEncoder().encode(text).length + TEMPLATE_TOKENS <= room) return "fits";
  const tokens = await count();
  if (tokens + TEMPLATE_TOKENS <= room) return "fits";
  const larger = contextSteps(most).find((step) => step > room && step >= tokens + TEMPLATE_TOKENS + ANSWER_TOKENS);
  return { tokens, room, larger };
}
