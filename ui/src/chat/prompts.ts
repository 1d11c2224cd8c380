// Prompts that a new chat offers. The built-in model knows Cairn only.
import { sameModel } from "../api/models.svelte";

const BUILT_IN = "pebble";

/** i18n keys of the prompts for a model. */
export function promptsOf(model: string | undefined): readonly string[] {
  return sameModel(model, BUILT_IN)
    ? ["chat.prompt_cairn_do", "chat.prompt_cairn_model", "chat.prompt_cairn_chats"]
    : ["chat.prompt_explain", "chat.prompt_write", "chat.prompt_plan"];
}
