// What a person chooses about the interface; a refusal is told.
import { choices, type Choices } from "../api/choices.svelte";
import { said } from "../api/said";
import { toasts } from "../components";

export function choose(change: Partial<Choices>): void {
  choices.set(change).catch((error: unknown) => toasts.error(said(error)));
}
