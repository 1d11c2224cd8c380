// Requests to the daemon: address, bearer token, JSON, NDJSON streams, errors.
import { ndjson } from "./ndjson";
import { reopen, session } from "./session";

/** A refusal of the daemon, or no daemon at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body?: unknown,
  ) {
    super(message);
  }

  get offline(): boolean {
    return this.status === 0;
  }
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface RequestOptions {
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** It is read for as long as its page is seen. A browser gives six connections to all windows of a server, and six more to requests
   * whose credentials it leaves out: what stays open has the latter, so that nothing else has to wait for it. */
  stays?: boolean;
  /** Called once an answer begins, which for a stream may be long before its first line. */
  opened?: () => void;
}

async function send(method: Method, path: string, options: RequestOptions, again = true): Promise<Response> {
  const { address, token } = await session();
  const headers: Record<string, string> = { ...options.headers };
  if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(address + path, {
      method,
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ?? null,
      cache: "no-store",
      credentials: options.stays === true ? "omit" : "same-origin",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    // It may be started anew, at another address.
    reopen();
    throw new ApiError(0, String(error));
  }
  if (response.status === 401 && again) {
    // Nothing was done. A daemon that was started anew has another token, which the window's shell knows.
    reopen();
    if ((await session()).token !== token) return send(method, path, options, false);
  }
  if (response.ok) {
    options.opened?.();
    return response;
  }
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined;
  }
  const said = (body as { error?: unknown } | undefined)?.error;
  throw new ApiError(response.status, typeof said === "string" ? said : text || response.statusText, body);
}

/** One request, one JSON answer; `undefined` where the answer has no body. */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** The text of an answer that is not JSON for us: exports. */
export async function requestText(method: Method, path: string, options: RequestOptions = {}): Promise<string> {
  return (await send(method, path, options)).text();
}

/** One request, answered line by line. */
export async function* stream<T>(method: Method, path: string, options: RequestOptions = {}): AsyncGenerator<T> {
  const response = await send(method, path, options);
  if (response.body !== null) yield* ndjson<T>(response.body);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => request<T>("GET", path, signal ? { signal } : {});
export const post = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("POST", path, { body });
export const put = <T>(path: string, body: unknown): Promise<T> => request<T>("PUT", path, { body });
export const patch = <T>(path: string, body: unknown): Promise<T> => request<T>("PATCH", path, { body });
export const remove = <T>(path: string, body?: unknown): Promise<T> => request<T>("DELETE", path, { body });

/** A query string of what is defined. */
export function query(values: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== undefined) search.set(key, String(value));
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}
