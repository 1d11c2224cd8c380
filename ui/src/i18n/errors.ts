// Errors in the language of the interface, by their code and parameters.
import { ApiError } from "../api/client";
import type { ErrorBody } from "../api/types";
import { bytes } from "./format";
import { fill, has, locale, t, template, type Params } from "./locale.svelte";

/** English details among the parameters. They are shown after the translated sentence, or behind Details. */
const DETAILS = ["reason", "feature"];

type Coded = Pick<ErrorBody, "code" | "params">;

function isBody(error: unknown): error is Coded {
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "string";
}

/** The name of a scope of API keys. */
function scope(name: string): string {
  return has(`server.scope_${name}`) ? t(`server.scope_${name}`) : name;
}

/** Parameters as the interface shows them: bytes are scaled, counts get separators, and scopes of API keys have their names. */
function shown(params: Record<string, string>): Params {
  const entries = Object.entries(params).map(([name, value]): [string, string | number] => {
    if (name === "scope") return [name, value.split(" or ").map(scope).join(t("server.scope_or"))];
    const count = Number(value);
    if (Number.isNaN(count)) return [name, value];
    if (name.endsWith("_bytes")) return [name, bytes(count)];
    return [name, /_tokens$|^limit$|^seconds$/.test(name) ? count : value];
  });
  return Object.fromEntries(entries);
}

/** The sentence of a code; `undefined` without one, or without a parameter that it needs. */
function sentenceOf(code: string | undefined, params: Params): string | undefined {
  if (code === undefined || !has(`errors.${code}`)) return undefined;
  const text = template(`errors.${code}`);
  const missing = [...text.matchAll(/\{(\w+)/g)].some(([, name = ""]) => !(name in params));
  return missing ? undefined : fill(text, params, locale.current);
}

/** The translated text of an error: its sentence, and that of the failure behind it. `undefined` without a sentence. */
function translated(error: unknown): string | undefined {
  if (!isBody(error)) return undefined;
  const params = shown(error.params ?? {});
  const first = sentenceOf(error.code, params);
  const second = sentenceOf(error.params?.["failure"], params);
  return first === undefined || second === undefined ? first : t("common.two_sentences", { first, second });
}

/** The sentence of an error: an `ApiError`, an `ErrorBody`, or anything thrown. Without a code, its English text; without an error, "". */
export function errorText(error: unknown): string {
  if (error === undefined) return "";
  if (error instanceof ApiError && error.offline) return t("common.offline");
  const sentence = translated(error);
  if (sentence !== undefined) return sentence;
  if (error instanceof Error) return error.message;
  if (typeof error === "object" && error !== null && "error" in error) return String(error.error);
  return String(error);
}

/** The English details of an error whose sentence is translated. */
export function errorDetails(error: unknown): string | undefined {
  if (!isBody(error) || translated(error) === undefined) return undefined;
  const { params = {} } = error;
  return DETAILS.map((name) => params[name]).find((value) => value !== undefined && value !== "");
}

/** The sentence with its details after a colon, for places without Details. */
export function errorLine(error: unknown): string {
  const [text, details] = [errorText(error), errorDetails(error)];
  return details === undefined ? text : t("common.with_details", { text: text.replace(/[.。]$/, ""), details });
}
