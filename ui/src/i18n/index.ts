export { errorDetails, errorLine, errorText } from "./errors";
export { bytes, clock, contextSize, dayNumber, duration, inBytes, moment, percent, speed, tokens, tokenSpeed, when } from "./format";
export { has, isLanguage, LANGUAGES, locale, number, systemLanguage, t, type Language, type Params } from "./locale.svelte";
