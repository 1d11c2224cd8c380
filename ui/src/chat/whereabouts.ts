// Where the texts of a chat go: computed from the models, tools and tiers in use, never a constant.
import type { Message } from "../api/chats";
import { FOLDER } from "../api/tools";
import { calls } from "./toolSteps";

export type Whereabouts = { kind: "here" } | { kind: "models"; remotes: readonly string[] } | { kind: "tools" } | { kind: "cache" };

export interface Facts {
  /** The loaded messages, and the number of those before them. */
  messages: readonly Pick<Message, "model" | "steps">[];
  before: number;
  /** The model of the next answer. */
  model: string | undefined;
  /** The remotes of a model; none for a model of this computer, `undefined` for an unknown one. */
  remotesOf: (model: string) => readonly string[] | undefined;
  /** Origins of the tools that are offered with the next message. */
  offered: readonly string[];
  /** The tiers of the cache, once they are loaded. */
  tiers: readonly { tier: string }[] | undefined;
  /** Temporary chats are not cached. */
  temporary: boolean;
}

/** `undefined` if facts are missing: models that are gone, messages that are not loaded. */
export function whereabouts({ messages, before, model, remotesOf, offered, tiers, temporary }: Facts): Whereabouts | undefined {
  const used = [...new Set([...messages.map((message) => message.model), model])].filter((name) => name !== undefined);
  const remotes = used.map(remotesOf);
  const names = [...new Set(remotes.flatMap((one) => one ?? []))];
  if (names.length > 0) return { kind: "models", remotes: names };
  // Tools of the folder send nothing; those of a page or a server may.
  const ran = messages.flatMap(calls).filter(({ state }) => state !== "waiting" && state !== "refused");
  if ([...offered, ...ran.map((call) => call.origin)].some((origin) => origin !== FOLDER)) return { kind: "tools" };
  if (before > 0 || tiers === undefined || used.length === 0 || remotes.includes(undefined)) return undefined;
  return !temporary && tiers.some((one) => one.tier === "remote") ? { kind: "cache" } : { kind: "here" };
}
