// What cures an error: for each code the screen where people meet it, and the button beside its sentence.
import { ApiError } from "../api/client";
import type { ErrorCode } from "../api/types";
import { t } from "../i18n";
import { commands } from "./commands.svelte";
import { navigate } from "./router.svelte";

/** The screen with the error; `field` beside the field that causes it, `other` only in other programs and in the terminal. */
export type Place = "chat" | "installed" | "discover" | "downloads" | "cache" | "hardware" | "server" | "settings" | "field" | "other";

/** Buttons. `retry` belongs to the place of the error, which repeats its own request; the others open a screen. */
export type Cure = "retry" | "model" | "discover" | "space" | "proxy" | "downloads" | "cache" | "engine" | "address" | "keys" | "remotes" | "logs" | "trash" | "chats" | "tools";

/** Why an error has no button: its field is the cure, it ends without help, the user caused it, or no screen shows it. */
export type NoCure = "edit" | "passes" | "intended" | "unseen";

export type Row = readonly [Place, Cure | NoCure];

export const CURES: Readonly<Record<ErrorCode, Row>> = {
  // Requests and access.
  invalid_request: ["other", "unseen"],
  missing_body: ["other", "unseen"],
  body_too_large: ["chat", "retry"],
  unauthorized: ["chat", "retry"],
  api_key_missing: ["server", "keys"],
  api_key_invalid: ["server", "keys"],
  api_key_scope: ["server", "keys"],
  session_expired: ["chat", "retry"],
  forbidden: ["server", "keys"],
  not_found: ["other", "unseen"],
  internal: ["chat", "logs"],
  server_busy: ["chat", "retry"],
  measurement_busy: ["hardware", "retry"],
  unsupported: ["other", "unseen"],
  start_failed: ["chat", "logs"],
  // API keys and remotes.
  key_name_invalid: ["field", "edit"],
  key_name_taken: ["field", "edit"],
  key_not_found: ["server", "keys"],
  too_many_keys: ["server", "keys"],
  keys_unreadable: ["server", "retry"],
  keys_unwritable: ["server", "retry"],
  remote_name_invalid: ["field", "edit"],
  remote_name_taken: ["field", "edit"],
  remote_not_found: ["server", "remotes"],
  too_many_remotes: ["server", "remotes"],
  remote_url_invalid: ["field", "edit"],
  remote_is_self: ["field", "edit"],
  remote_key_invalid: ["field", "edit"],
  remote_key_plain: ["field", "edit"],
  remote_not_a_server: ["field", "edit"],
  remotes_unreadable: ["server", "retry"],
  remotes_unwritable: ["server", "retry"],
  remote_unavailable: ["chat", "remotes"],
  remote_refused: ["chat", "remotes"],
  remote_interrupted: ["chat", "retry"],
  remote_unreachable: ["server", "retry"],
  remote_timeout: ["server", "retry"],
  remote_disconnected: ["server", "retry"],
  remote_redirected: ["field", "edit"],
  remote_status: ["server", "retry"],
  remote_reported_error: ["server", "retry"],
  remote_response_invalid: ["server", "retry"],
  // Settings.
  setting_invalid: ["field", "edit"],
  setting_unknown: ["other", "unseen"],
  setting_overridden: ["field", "edit"],
  setting_needs_bool: ["field", "edit"],
  setting_needs_number: ["field", "edit"],
  setting_needs_size: ["field", "edit"],
  setting_needs_choice: ["field", "edit"],
  setting_needs_text: ["field", "edit"],
  setting_needs_line: ["field", "edit"],
  setting_needs_path: ["field", "edit"],
  setting_needs_address: ["field", "edit"],
  setting_too_long: ["field", "edit"],
  setting_too_large: ["field", "edit"],
  setting_out_of_range: ["field", "edit"],
  address_unusable: ["settings", "address"],
  file_not_found: ["field", "edit"],
  folder_is_file: ["field", "edit"],
  kernel_unavailable: ["hardware", "engine"],
  config_unreadable: ["settings", "retry"],
  config_unwritable: ["settings", "retry"],
  // Models and libraries.
  model_name_missing: ["field", "edit"],
  model_name_invalid: ["field", "edit"],
  model_not_found: ["chat", "model"],
  model_has_no_file: ["chat", "model"],
  model_file_unreadable: ["chat", "model"],
  model_file_missing: ["chat", "space"],
  model_unloadable: ["chat", "model"],
  model_too_large: ["chat", "model"],
  capability_missing: ["chat", "model"],
  thinking_unsupported: ["chat", "model"],
  model_built_in: ["field", "edit"],
  model_name_taken: ["field", "edit"],
  model_in_other_library: ["field", "edit"],
  library_read_only: ["installed", "space"],
  library_unreadable: ["chat", "space"],
  library_write_failed: ["downloads", "space"],
  disk_full: ["downloads", "space"],
  manifest_unreadable: ["installed", "retry"],
  digest_invalid: ["other", "unseen"],
  digest_mismatch: ["downloads", "retry"],
  blob_not_found: ["other", "unseen"],
  file_outside_library: ["installed", "space"],
  file_in_library: ["field", "edit"],
  file_in_other_library: ["field", "edit"],
  import_refused: ["field", "edit"],
  create_request_invalid: ["other", "unseen"],
  quantization_failed: ["other", "unseen"],
  template_invalid: ["chat", "model"],
  // Registries and downloads.
  registry_model_not_found: ["downloads", "discover"],
  registry_insecure: ["downloads", "discover"],
  registry_address_invalid: ["field", "edit"],
  registry_refused: ["downloads", "discover"],
  registry_untrusted: ["downloads", "proxy"],
  registry_unreachable: ["downloads", "proxy"],
  registry_busy: ["downloads", "retry"],
  model_format_unsupported: ["downloads", "discover"],
  model_cannot_run: ["downloads", "discover"],
  manifest_invalid: ["downloads", "discover"],
  model_made_here: ["field", "edit"],
  proxy_invalid: ["downloads", "proxy"],
  download_failed: ["downloads", "retry"],
  download_not_found: ["downloads", "discover"],
  download_complete: ["downloads", "intended"],
  download_cancelled: ["downloads", "intended"],
  download_interrupted: ["downloads", "passes"],
  download_discarded: ["downloads", "intended"],
  too_many_downloads: ["discover", "downloads"],
  push_unauthorized: ["other", "unseen"],
  push_failed: ["other", "unseen"],
  remote_fetch_forbidden: ["other", "unseen"],
  query_too_long: ["field", "edit"],
  login_invalid: ["other", "unseen"],
  login_refused: ["other", "unseen"],
  login_not_a_registry: ["other", "unseen"],
  login_unreachable: ["other", "unseen"],
  login_store_failed: ["other", "unseen"],
  join_code_invalid: ["field", "edit"],
  join_failed: ["field", "edit"],
  peer_key_invalid: ["field", "edit"],
  trust_store_failed: ["server", "retry"],
  lan_failed: ["server", "retry"],
  // Cache.
  cache_off: ["cache", "cache"],
  context_not_found: ["cache", "passes"],
  context_ambiguous: ["other", "unseen"],
  pin_quota_exceeded: ["cache", "cache"],
  cache_folder_invalid: ["field", "edit"],
  cache_folder_unreadable: ["cache", "cache"],
  // Answers.
  option_invalid: ["field", "edit"],
  prompt_too_long: ["chat", "engine"],
  context_too_small: ["chat", "engine"],
  prompt_failed: ["chat", "model"],
  generation_failed: ["chat", "retry"],
  generation_interrupted: ["chat", "retry"],
  generation_displaced: ["chat", "retry"],
  // Chats.
  chat_not_found: ["chat", "chats"],
  message_not_found: ["chat", "chats"],
  preset_not_found: ["chat", "retry"],
  chat_answering: ["chat", "passes"],
  chat_without_model: ["chat", "model"],
  chat_in_trash: ["chat", "trash"],
  message_empty: ["field", "edit"],
  message_not_answerable: ["chat", "chats"],
  chat_import_failed: ["chat", "retry"],
  chats_unavailable: ["chat", "retry"],
  chats_newer_version: ["chat", "logs"],
  chats_damaged: ["chat", "retry"],
  chats_disk_full: ["chat", "space"],
  chats_read_only: ["chat", "logs"],
  chats_repaired: ["chat", "intended"],
  chats_not_erased: ["chat", "passes"],
  // Collections.
  collection_not_found: ["chat", "retry"],
  collection_document_not_found: ["chat", "retry"],
  collection_name_invalid: ["field", "edit"],
  collection_full: ["field", "edit"],
  collection_model_invalid: ["field", "edit"],
  collection_reading_interrupted: ["field", "edit"],
  collections_unavailable: ["chat", "retry"],
  collections_newer_version: ["chat", "logs"],
  collections_disk_full: ["chat", "space"],
  // Documents.
  document_unknown: ["field", "edit"],
  document_old_office: ["field", "edit"],
  document_damaged: ["field", "edit"],
  document_encrypted: ["field", "edit"],
  document_has_no_text_layer: ["field", "edit"],
  document_empty: ["field", "edit"],
  document_too_large: ["field", "edit"],
  document_inflates: ["field", "edit"],
  document_too_long: ["field", "edit"],
  document_timeout: ["field", "edit"],
  document_failed: ["field", "edit"],
  // Tools.
  tool_server_invalid: ["field", "edit"],
  tool_server_name_taken: ["field", "edit"],
  tool_server_not_found: ["settings", "tools"],
  tool_server_off: ["settings", "tools"],
  tool_not_found: ["settings", "tools"],
  tool_server_failed: ["settings", "retry"],
  too_many_tool_servers: ["settings", "tools"],
  too_many_tool_permissions: ["settings", "tools"],
  tool_folder_unreadable: ["field", "edit"],
  tools_unreadable: ["settings", "retry"],
  tools_unwritable: ["settings", "retry"],
  tool_call_not_found: ["chat", "passes"],
};

/** Runs a command of the chat screen, which is opened for it. */
function onChat(command: string): void {
  if (!commands.can(command)) {
    commands.later(command);
    navigate("chat");
  } else commands.run(command);
}

/** The effect of each button, except `retry`. */
export const OPENS: Readonly<Record<Exclude<Cure, "retry">, () => void>> = {
  model: () => onChat("model"),
  discover: () => navigate("models", "discover"),
  space: () => navigate("models", "installed"),
  proxy: () => navigate("settings", "network"),
  downloads: () => navigate("models", "downloads"),
  cache: () => navigate("settings", "cache"),
  engine: () => navigate("settings", "engine"),
  address: () => navigate("settings", "server"),
  keys: () => navigate("server"),
  remotes: () => navigate("server"),
  logs: () => navigate("settings", "log"),
  trash: () => onChat("trash"),
  chats: () => onChat("new_chat"),
  tools: () => navigate("settings", "tools"),
};

export interface Button {
  label: string;
  run: () => void;
}

function rowOf(error: unknown): Row | undefined {
  const code = error instanceof ApiError || (typeof error === "object" && error !== null && "code" in error) ? (error as { code?: ErrorCode }).code : undefined;
  return code === undefined ? undefined : CURES[code];
}

/** The button that cures an error; `retry` is the request of the place that shows it. An absent daemon is tried again, too. */
export function cureOf(error: unknown, retry?: () => void): Button | undefined {
  const again = retry === undefined ? undefined : { label: t("common.retry"), run: retry };
  const cure = rowOf(error)?.[1];
  if (cure === undefined || cure === "retry") return again;
  const run = OPENS[cure as keyof typeof OPENS] as (() => void) | undefined;
  return run === undefined ? undefined : { label: t(`common.cure_${cure}`), run };
}
