// Requests to the daemon: address, bearer token, JSON, NDJSON streams, errors.
import { ndjson } from "./ndjson";
import { reopen, session } from "./session";
import type { ErrorBody, ErrorCode } from "./types";

/** An error response of the daemon, the error at the end of a stream, or no response at all (`status` 0). */
export class ApiError extends Error {
  readonly code: ErrorCode | undefined;
  readonly params: Record<string, string>;

  constructor(
    readonly status: number,
    message: string,
    readonly body?: unknown,
  ) {
    super(message);
    const { code, params } = (typeof body === "object" && body !== null ? body : {}) as Partial<ErrorBody>;
    this.code = code;
    this.params = params ?? {};
  }

  get offline(): boolean {
    return this.status === 0;
  }
}

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface RequestOptions {
  body?: unknown;
  /** A file as the body, instead of JSON. */
  file?: Blob;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** The response is read as long as the page is visible. A browser allows six connections to a server, and six more for requests
   * without credentials. Long streams use the latter, so that other requests need not wait for them. */
  stays?: boolean;
  /** Called when the response begins, which may be long before its first line. */
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
      body: options.file ?? (options.body === undefined ? null : JSON.stringify(options.body)),
      signal: options.signal ?? null,
      cache: "no-store",
      credentials: options.stays === true ? "omit" : "same-origin",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    // The daemon may have restarted at another address.
    reopen();
    throw new ApiError(0, String(error));
  }
  if (response.status === 401 && again) {
    // The request was not executed. A restarted daemon has another token, which the platform knows.
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
  const message = (body as { error?: unknown } | undefined)?.error;
  throw new ApiError(response.status, typeof message === "string" ? message : text || response.statusText, body);
}

/** Status of an error that ends a stream, whose response has begun with 200. */
const STREAM_FAILED = 500;

/** The last line of a stream that failed is an `ErrorBody`. */
function throwIfError(line: unknown): void {
  if (typeof line !== "object" || line === null || !("error" in line) || typeof line.error !== "string") return;
  throw new ApiError(STREAM_FAILED, line.error, line);
}

/** A request with a JSON response; `undefined` if the response has no body. */
export async function request<T>(method: Method, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** A response as text: exports. */
export async function requestText(method: Method, path: string, options: RequestOptions = {}): Promise<string> {
  return (await send(method, path, options)).text();
}

/** A request with a response of JSON lines. Throws the error of a stream that failed. */
export async function* stream<T>(method: Method, path: string, options: RequestOptions = {}): AsyncGenerator<T> {
  const response = await send(method, path, options);
  if (response.body === null) return;
  try {
    for await (const line of ndjson<T>(response.body)) {
      throwIfError(line);
      yield line;
    }
  } catch (error) {
    // Browsers report a lost connection as a `TypeError`, each with another text.
    throw error instanceof TypeError ? new ApiError(0, String(error)) : error;
  }
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => request<T>("GET", path, signal ? { signal } : {});
export const post = <T>(path: string, body: unknown = {}): Promise<T> => request<T>("POST", path, { body });
export const put = <T>(path: string, body: unknown): Promise<T> => request<T>("PUT", path, { body });
export const patch = <T>(path: string, body: unknown): Promise<T> => request<T>("PATCH", path, { body });
export const remove = <T>(path: string, body?: unknown): Promise<T> => request<T>("DELETE", path, { body });

/** A query string of the values that are defined. */
export function query(values: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== undefined) search.set(key, String(value));
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}
