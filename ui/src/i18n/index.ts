export { bytes, dayNumber, duration, moment, percent, speed, tokens, when } from "./format";
export { has, LANGUAGES, locale, number, t, type Language, type Params } from "./locale.svelte";
