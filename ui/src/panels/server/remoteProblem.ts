// Errors of adding a remote: the field at fault, and a change that probably helps.
import { ApiError } from "../../api/client";
import { reaches } from "./lan";

export type RemoteField = "name" | "url" | "key";
export interface RemoteForm extends Record<RemoteField, string> {
  /** Whether the key may be sent unencrypted. */
  insecure: boolean;
}

export interface RemoteProblem {
  field: RemoteField;
  error: ApiError;
  /** Whether the daemon refused to send the key unencrypted. */
  isKeyPlain: boolean;
  /** A better value of a field; `undefined` if only another attempt may help. */
  cure: { field: RemoteField; value: string } | undefined;
}

const MAX_NAME_CHARS = 64;
/** Port of Cairn and Ollama. */
const USUAL_PORT = "11434";

/** Assigns an error to a field of the form; `undefined` if no field is at fault. `taken` are the names of other remotes. */
export function problemOf(error: unknown, form: RemoteForm, taken: readonly string[]): RemoteProblem | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const at = (field: RemoteField, cured: RemoteField, value: string | undefined): RemoteProblem => ({
    field,
    error,
    isKeyPlain: false,
    cure: value === undefined || value === "" || value === form[cured] ? undefined : { field: cured, value },
  });
  switch (error.code) {
    case "remote_name_invalid":
      return at("name", "name", validName(form.name));
    case "remote_name_taken":
      return at("name", "name", freeName(form.name, taken));
    case "remote_url_invalid":
      return at("url", "url", repairedUrl(form.url));
    case "remote_is_self":
      return at("url", "url", undefined);
    case "remote_key_plain":
      return { ...at("key", "url", encryptedUrl(form.url)), isKeyPlain: true };
    case "remote_key_invalid":
      return at("key", "key", form.key.replace(/[^\x21-\x7e]/g, ""));
    case "remote_not_a_server":
      return ["401", "403"].includes(error.params["status"] ?? "") ? at("key", "key", undefined) : at("url", "url", urlWithPort(form.url));
    default:
      return undefined;
  }
}

/** Whether a key would be sent unencrypted to another machine. */
export function isPlain(url: string): boolean {
  return !/^\s*https:/i.test(url) && reaches(url);
}

function validName(name: string): string {
  const letters = name.trim().replace(/[^A-Za-z0-9._-]+/g, "-");
  return letters.replace(/^[._-]+|-+$/g, "").slice(0, MAX_NAME_CHARS);
}

function freeName(name: string, taken: readonly string[]): string {
  for (let number = 2; ; number += 1) {
    const end = `-${number}`;
    const free = name.slice(0, MAX_NAME_CHARS - end.length) + end;
    if (!taken.includes(free)) return free;
  }
}

function parsed(text: string): URL | undefined {
  const [, scheme = "", rest = ""] = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(.*)$/i.exec(text.replace(/\s+/g, "")) ?? [];
  try {
    return new URL(`${scheme.toLowerCase() === "https" ? "https" : "http"}://${rest}`);
  } catch {
    return undefined;
  }
}

function shown(url: URL): string {
  return url.href.replace(/\/$/, "");
}

/** The address without the parts that the daemon refuses. */
function repairedUrl(text: string): string | undefined {
  const url = parsed(text);
  if (url === undefined) return undefined;
  url.username = url.password = url.search = url.hash = "";
  return shown(url);
}

function encryptedUrl(text: string): string | undefined {
  const url = parsed(text);
  return url && shown(new URL(url.href.replace(/^http:/, "https:")));
}

/** The address with the usual port, if it has none. */
function urlWithPort(text: string): string | undefined {
  const url = parsed(text);
  if (url === undefined || url.protocol === "https:" || url.port !== "") return undefined;
  url.port = USUAL_PORT;
  return shown(url);
}
