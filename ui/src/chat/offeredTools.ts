// Which tools are offered with the next message.
import { models } from "../api/models.svelte";
import { tools } from "../api/tools.svelte";
import { toolChoice } from "./toolChoice.svelte";

/** Whether a model cannot call tools; a model that is not described yet may have them. */
export function cannotCall(model: string | undefined): boolean {
  return model !== undefined && models.isDescribed(model) && !models.can(model, "tools");
}

/** Origins of the tools that the next message offers to a model; none if a second model answers, too. */
export function offeredOrigins(model: string | undefined, second: string | undefined): string[] {
  return toolChoice.off || second !== undefined || cannotCall(model) ? [] : tools.origins;
}
