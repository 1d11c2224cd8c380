// `/app/keys`: API keys of other programs.
import { get, post } from "./client";
import type { CreateKeyResponse, KeyScope, KeysResponse } from "./types";

export const keys = {
  list: () => get<KeysResponse>("/app/keys"),
  /** Creates a key. Only this response has its text. */
  create: (name: string, scopes: readonly KeyScope[]) => post<CreateKeyResponse>("/app/keys", { name, scopes }),
  revoke: (name: string) => post<KeysResponse>("/app/keys/revoke", { name }),
};

export type KeysApi = typeof keys;
export type { KeyScope, ListedKey } from "./types";
