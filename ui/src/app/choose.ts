// What a person chooses about the interface; a refusal is told.
import { choices, type Choices } from "../api/choices.svelte";
import { toasts } from "../components";
import { said } from "../i18n";

export function choose(change: Partial<Choices>): void {
  choices.set(change).catch((error: unknown) => toasts.error(said(error)));
}
