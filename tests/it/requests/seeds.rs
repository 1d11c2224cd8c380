//! A valid request, or several, for each route and method.

use serde_json::{Value, json};

use super::world::World;

/// A valid request.
pub(super) struct Seed {
    /// The route as the router has it.
    pub(super) route: &'static str,
    pub(super) method: &'static str,
    /// Path and query.
    pub(super) target: String,
    /// `Null` for none, a text for raw bytes.
    pub(super) body: Value,
    pub(super) expected: Expected,
}

/// What the daemon must do with a valid request that no other request precedes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Accepted,
    /// A part of it exists only in another program or at another time.
    Refused,
    /// It depends on work that other requests began: an answer, a download, or rows that are stored.
    Either,
}

impl Seed {
    fn refused(self) -> Self {
        Self { expected: Expected::Refused, ..self }
    }

    fn or_refused(self) -> Self {
        Self { expected: Expected::Either, ..self }
    }
}

fn seed(method: &'static str, route: &'static str, body: Value) -> Seed {
    at(method, route, route, body)
}

fn at(method: &'static str, route: &'static str, target: impl Into<String>, body: Value) -> Seed {
    Seed { route, method, target: target.into(), body, expected: Expected::Accepted }
}

/// Returns valid requests for all routes.
pub(super) fn all(world: &World) -> Vec<Seed> {
    // The requests of the cache come first, because others change its contexts.
    [
        cache(world),
        ollama(world),
        apis(world),
        models(world),
        chats(world),
        collections(world),
        downloads(world),
        machine(world),
        registry(world),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn options() -> Value {
    json!({"num_predict": 4, "num_ctx": 1024, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 1,
        "repeat_penalty": 1.1, "repeat_last_n": 8, "presence_penalty": 0.1, "frequency_penalty": 0.1, "stop": ["."],
        "num_keep": 4, "num_batch": 64, "kv_cache_type": "f16", "context_shift": "turns"})
}

/// The APIs of OpenAI and Anthropic.
fn apis(world: &World) -> Vec<Seed> {
    let World { model, embedder, .. } = world;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Count."}]},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]);
    let blocks = json!([
        {"role": "user", "content": "Count."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""},
            {"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "1", "is_error": false}]},
    ]);
    let items = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "Count."}]},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "One."}]},
        {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
    ]);
    vec![
        seed("GET", "/v1/models", Value::Null),
        at("GET", "/v1/models/{*model}", format!("/v1/models/{model}"), Value::Null),
        seed(
            "POST",
            "/v1/embeddings",
            json!({"model": embedder, "input": ["Count.", "stone"], "encoding_format": "base64", "dimensions": 8}),
        ),
        seed("POST", "/v1/embeddings", json!({"model": embedder, "input": [[2, 9, 3]], "encoding_format": "float"})),
        seed(
            "POST",
            "/v1/rerank",
            json!({"model": embedder, "query": "stone", "documents": ["water", {"text": "stone"}], "top_n": 1,
            "return_documents": true}),
        ),
        seed(
            "POST",
            "/v1/chat/completions",
            json!({"model": model, "messages": messages, "stream": true, "stream_options": {"include_usage": true},
            "max_tokens": 4, "temperature": 0.7, "top_p": 0.9, "seed": 1, "stop": ["."], "n": 2, "logprobs": true,
            "top_logprobs": 2, "frequency_penalty": 0.1, "presence_penalty": 0.1, "tools": [], "tool_choice": "auto"}),
        ),
        seed(
            "POST",
            "/v1/chat/completions",
            json!({"model": model, "messages": messages, "max_completion_tokens": 4, "reasoning_effort": "none",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}}}),
        ),
        seed(
            "POST",
            "/v1/completions",
            json!({"model": model, "prompt": ["Count.", "Go."], "max_tokens": 4, "stream": false, "logprobs": 1, "n": 1,
            "echo": false, "suffix": "", "stop": "."}),
        ),
        seed(
            "POST",
            "/v1/responses",
            json!({"model": model, "input": items, "instructions": "Be brief.", "stream": true, "max_output_tokens": 4,
            "temperature": 0.7, "top_p": 0.9, "reasoning": {"effort": "none"}, "text": {"format": {"type": "text"}},
            "tools": [], "tool_choice": "auto", "parallel_tool_calls": true, "include": ["message.output_text.logprobs"],
            "top_logprobs": 2, "truncation": "auto", "store": false, "metadata": {}}),
        ),
        seed(
            "POST",
            "/v1/messages",
            json!({"model": model, "messages": blocks, "max_tokens": 4, "system": [{"type": "text", "text": "Be brief."}],
            "stream": true, "temperature": 0.7, "top_k": 40, "top_p": 0.9, "stop_sequences": ["."], "tools": [],
            "thinking": {"type": "disabled"}, "tool_choice": {"type": "auto"}}),
        ),
        seed("POST", "/v1/messages/count_tokens", json!({"model": model, "messages": blocks})),
        at("POST", "/v1/audio/{*endpoint}", "/v1/audio/speech", json!({"model": model, "input": "Go."})).refused(),
    ]
}

fn ollama(world: &World) -> Vec<Seed> {
    let World { model, embedder, made, digest, pulled, .. } = world;
    let messages =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Count.", "thinking": ""}]);
    vec![
        seed("GET", "/", Value::Null),
        seed("GET", "/api/version", Value::Null),
        seed("GET", "/api/status", Value::Null),
        seed("GET", "/api/tags", Value::Null),
        seed("GET", "/api/ps", Value::Null),
        seed("POST", "/api/show", json!({"model": model, "name": "", "verbose": true})),
        seed(
            "POST",
            "/api/chat",
            json!({"model": model, "messages": messages, "stream": true, "options": options(),
            "keep_alive": "5m", "think": false, "truncate": true, "shift": true, "logprobs": true, "top_logprobs": 3}),
        ),
        seed(
            "POST",
            "/api/chat",
            json!({"model": model, "messages": messages, "stream": false, "options": options(),
            "format": "", "tools": [], "debug_render_only": false}),
        ),
        seed(
            "POST",
            "/api/generate",
            json!({"model": model, "prompt": "Count.", "system": "Be brief.", "stream": true,
            "raw": false, "options": options(), "keep_alive": 300, "images": [], "context": [1, 2, 3], "logprobs": true}),
        ),
        seed(
            "POST",
            "/api/generate",
            json!({"model": model, "prompt": "Count.", "stream": false, "options": options(),
            "template": "", "suffix": ""}),
        ),
        seed(
            "POST",
            "/api/generate",
            json!({"model": model, "prompt": "Count.", "options": options(),
            "template": "{{ range .Messages }}{{ .Role }}: {{ .Content }}{{ end }}{{ .Prompt }}"}),
        ),
        seed(
            "POST",
            "/api/embed",
            json!({"model": embedder, "input": ["Count.", "stone"], "truncate": true, "dimensions": 8,
            "keep_alive": "1m", "options": options()}),
        ),
        seed("POST", "/api/embed", json!({"model": embedder, "input": "Count.", "truncate": false})),
        seed("POST", "/api/embeddings", json!({"model": embedder, "prompt": "Count.", "keep_alive": 60})),
        seed(
            "POST",
            "/api/create",
            json!({"model": made, "from": model, "system": "Be brief.", "license": ["MIT"],
            "parameters": {"temperature": 0.5, "stop": ["a"]}, "messages": messages, "template": "{{ .Prompt }}",
            "stream": true, "insecure": true, "requires": "0.1.0", "quantize": ""}),
        ),
        seed(
            "POST",
            "/api/create",
            json!({"model": made, "files": {"model.gguf": digest}, "adapters": {}, "stream": false}),
        ),
        seed("POST", "/api/copy", json!({"source": model, "destination": made})),
        seed("DELETE", "/api/delete", json!({"model": made, "name": made})),
        seed("POST", "/api/pull", json!({"model": pulled, "insecure": true, "stream": true, "sources": []})),
        seed("POST", "/api/pull", json!({"name": pulled, "insecure": true, "stream": false, "model": pulled})),
        seed("POST", "/api/push", json!({"model": pulled, "insecure": true, "stream": true})),
        at("HEAD", "/api/blobs/{digest}", format!("/api/blobs/{digest}"), Value::Null),
        at("POST", "/api/blobs/{digest}", format!("/api/blobs/{digest}"), json!("GGUF")),
        at("POST", "/api/blobs/{digest}", format!("/api/blobs/{}", world.new_digest), json!(world.new_blob)),
    ]
}

fn models(world: &World) -> Vec<Seed> {
    let World { model, made, file, folder, .. } = world;
    vec![
        seed("POST", "/app/copy", json!({"source": model, "destination": made})),
        seed("POST", "/app/delete", json!({"model": made, "name": made})),
        seed("POST", "/app/load", json!({"model": model, "force": false, "keep_alive": "1m"})),
        seed("POST", "/app/open", json!({"path": file})),
        seed("POST", "/app/import", json!({"path": file, "name": made, "link": false, "moving": false, "force": true})),
        seed("POST", "/app/scan", json!({"folders": [folder], "apps": true, "digests": true})),
        seed("POST", "/app/verify", json!({"models": [model], "discard": false})),
        seed("POST", "/app/gc", json!({"dry_run": true, "partials": false})),
        seed("GET", "/app/libraries", Value::Null),
        seed("GET", "/app/usage", Value::Null),
        seed("GET", "/app/updates", Value::Null),
        at("GET", "/app/updates", "/app/updates?model=none&insecure=true", Value::Null).refused(),
        seed("GET", "/app/discover", Value::Null),
        at("GET", "/app/discover", "/app/discover?q=tiny&limit=3&own=true", Value::Null),
    ]
}

fn chats(world: &World) -> Vec<Seed> {
    let World { model, chat, deleted_chat, question, message, .. } = world;
    let deleted = |path: &str| format!("/app/chats/{deleted_chat}{path}");
    let under = |path: &str| format!("/app/chats/{chat}{path}");
    let export = json!({"format": "cairn-chats", "version": 1, "exported_at": "2025-01-01T00:00:00Z", "chats": [
        {"id": "1", "title": "Bread", "created_at": "2025-01-01T00:00:00Z", "updated_at": "2025-01-01T00:00:00Z",
         "messages": [{"id": "2", "role": "user", "content": "Count.", "created_at": "2025-01-01T00:00:00Z", "state": "complete"}]}]});
    vec![
        seed("GET", "/app/chats", Value::Null),
        at("GET", "/app/chats", "/app/chats?folder=a&trash=false&temporary=false&limit=5", Value::Null),
        at("GET", "/app/chats", "/app/chats?after=x", Value::Null).refused(),
        seed(
            "POST",
            "/app/chats",
            json!({"title": "Bread", "model": model, "folder": "a", "system": "Be brief.",
            "options": options(), "think": false, "preset": "calm", "temporary": false}),
        ),
        at("GET", "/app/chats/{id}", under(""), Value::Null),
        at(
            "PATCH",
            "/app/chats/{id}",
            under(""),
            json!({"title": "Bread", "model": model, "folder": null, "pinned": true,
            "system": "Be brief.", "options": options(), "think": true, "preset": null}),
        ),
        at("DELETE", "/app/chats/{id}", deleted(""), Value::Null),
        at("POST", "/app/chats/{id}/restore", deleted("/restore"), Value::Null),
        at("DELETE", "/app/chats/{id}", deleted("?forever=true"), Value::Null),
        at("POST", "/app/chats/{id}/prefetch", under("/prefetch"), Value::Null),
        at(
            "GET",
            "/app/chats/{id}/messages",
            under(&format!("/messages?leaf={message}&before={message}&limit=3")),
            Value::Null,
        ),
        at("GET", "/app/chats/{id}/messages", under("/messages"), Value::Null),
        at(
            "POST",
            "/app/chats/{id}/messages",
            under("/messages"),
            json!({"content": "Count.", "parent": message,
            "images": [], "files": [{"name": "a.txt", "text": "b"}], "model": model, "think": false, "options": options()}),
        )
        .or_refused(),
        at("POST", "/app/chats/{id}/messages", under("/messages"), json!({"content": "Count.", "options": options()})).or_refused(),
        at("PUT", "/app/chats/{id}/head", under("/head"), json!({"message": message})).or_refused(),
        at("GET", "/app/chats/{id}/answer", under("/answer"), Value::Null),
        at(
            "POST",
            "/app/chats/{id}/answer",
            under("/answer"),
            json!({"message": question, "model": model, "think": false, "options": options()}),
        )
        .or_refused(),
        at("POST", "/app/chats/{id}/stop", under("/stop"), Value::Null),
        at("POST", "/app/chats/{id}/calls/{call}", under("/calls/call_1"), json!({"decision": "once"})).refused(),
        at("POST", "/app/chats/{id}/edit", under("/edit"), json!({"message": message, "content": "Edited."})).or_refused(),
        at("POST", "/app/chats/{id}/fork", under("/fork"), json!({"message": message, "title": "Forked"})).or_refused(),
        at("DELETE", "/app/chats/{id}/messages/{message}", under("/messages/0"), Value::Null).refused(),
        at(
            "POST",
            "/app/chats/{id}/messages/restore",
            under("/messages/restore"),
            json!({"messages": [{"id": "9", "parent": message, "role": "user", "content": "Again.",
                "created_at": "2025-01-01T00:00:00Z", "state": "complete"}], "head": "9"}),
        )
        .or_refused(),
        at("GET", "/app/chats/{id}/export", under("/export?format=md"), Value::Null),
        at("GET", "/app/chats/{id}/export", under("/export?format=json"), Value::Null),
        seed("GET", "/app/chats/events", Value::Null),
        seed("GET", "/app/chats/export", Value::Null),
        seed("GET", "/app/chats/import", Value::Null),
        seed("POST", "/app/chats/import", json!({"export": export})),
        seed("POST", "/app/chats/import", json!({"ollama_db": world.file})).refused(),
        at("GET", "/app/chats/search", "/app/chats/search?q=Count&limit=5", Value::Null),
        at("POST", "/app/documents", "/app/documents?name=notes.md", json!("# Notes\nText.")),
        seed("GET", "/app/presets", Value::Null),
        at("GET", "/app/presets/{name}", "/app/presets/calm", Value::Null),
        at(
            "PUT",
            "/app/presets/{name}",
            "/app/presets/calm",
            json!({"name": "calm", "model": model, "system": "Be calm.", "options": options(), "think": false}),
        ),
        at("DELETE", "/app/presets/{name}", "/app/presets/calm", Value::Null),
    ]
}

fn collections(world: &World) -> Vec<Seed> {
    let World { embedder, collection, document, deleted_collection, .. } = world;
    let under = |path: &str| format!("/app/collections/{collection}{path}");
    let (one, documents) = ("/app/collections/{id}", "/app/collections/{id}/documents");
    vec![
        seed("GET", "/app/collections", Value::Null),
        seed("POST", "/app/collections", json!({"name": "Bread", "model": embedder})),
        at("GET", one, under(""), Value::Null),
        at("PATCH", one, under(""), json!({"name": "Letters", "model": ""})),
        at("POST", documents, under("/documents?name=notes.md"), json!("# Letters\nText.")),
        at("POST", "/app/collections/{id}/search", under("/search"), json!({"query": "Notes", "limit": 3})),
        at(
            "DELETE",
            "/app/collections/{id}/documents/{document}",
            under(&format!("/documents/{document}")),
            Value::Null,
        )
        .or_refused(),
        at("DELETE", one, format!("/app/collections/{deleted_collection}"), Value::Null).or_refused(),
    ]
}

fn cache(world: &World) -> Vec<Seed> {
    let World { model, context, chat, folder, .. } = world;
    let owner = json!({"owner": format!("chat:{chat}")});
    vec![
        seed("GET", "/app/cache", Value::Null),
        seed("GET", "/app/cache/contexts", Value::Null),
        seed("GET", "/app/cache/events", Value::Null),
        seed("GET", "/app/cache/fsck", Value::Null),
        seed("GET", "/app/cache/limits", Value::Null),
        seed("PUT", "/app/cache/limits", json!({"folder_bytes": 1 << 30})),
        seed("PUT", "/app/cache/limits", json!({"ram_bytes": 1 << 20, "folder": folder, "folder_bytes": 1 << 30}))
            .refused(),
        seed("POST", "/app/cache/pin", json!({"context": context})).or_refused(),
        seed("POST", "/app/cache/unpin", json!({"context": context})).or_refused(),
        seed("POST", "/app/cache/drop", json!({"context": context})).or_refused(),
        seed("POST", "/app/cache/prefetch", owner.clone()),
        seed("DELETE", "/app/cache/owner", owner),
        seed("POST", "/app/cache/clear", json!({"tier": "ram"})),
        seed("POST", "/app/cache/test", json!({"folder": folder, "remote": folder})),
        seed(
            "POST",
            "/app/cache/trace",
            json!({"model": model, "messages": [{"role": "user", "content": "Count."}],
            "raw": false, "options": options()}),
        ),
    ]
}

fn downloads(world: &World) -> Vec<Seed> {
    let World { pulled, download, .. } = world;
    let choice = json!({"download": download});
    vec![
        seed("GET", "/app/downloads", Value::Null),
        seed("POST", "/app/downloads", json!({"model": pulled, "insecure": true, "sources": []})),
        seed("GET", "/app/downloads/events", Value::Null),
        seed("POST", "/app/downloads/pause", choice.clone()).or_refused(),
        seed("POST", "/app/downloads/resume", choice.clone()).or_refused(),
        seed("POST", "/app/downloads/reorder", json!({"download": download, "position": 0})),
        seed("POST", "/app/downloads/cancel", choice.clone()).or_refused(),
        seed("POST", "/app/downloads/discard", choice).or_refused(),
        seed("POST", "/app/downloads/cap", json!({"bytes_per_second": 1 << 30})),
    ]
}

fn machine(world: &World) -> Vec<Seed> {
    let World { registry, folder, .. } = world;
    vec![
        seed("GET", "/app/attend", Value::Null),
        seed("GET", "/app/hardware", Value::Null),
        seed("POST", "/app/hardware/measure", Value::Null).or_refused(),
        seed("GET", "/app/speeds", Value::Null),
        seed("GET", "/app/hardware/events", Value::Null),
        seed("GET", "/app/keys", Value::Null),
        seed("POST", "/app/keys", json!({"name": "grafana", "scopes": ["metrics"]})),
        seed("POST", "/app/keys/revoke", json!({"name": "grafana"})),
        seed("GET", "/app/logins", Value::Null),
        seed(
            "POST",
            "/app/logins",
            json!({"registry": registry, "user": "ada", "password": "secret", "token_servers": [],
            "insecure": true}),
        ),
        seed("POST", "/app/logins/forget", json!({"registry": registry})),
        seed("GET", "/app/remotes", Value::Null),
        // The registry is no server of models.
        seed("POST", "/app/remotes", json!({"name": "nas", "url": registry, "key": "sk-1", "insecure": false}))
            .refused(),
        seed("POST", "/app/remotes/check", json!({})),
        seed("POST", "/app/remotes/remove", json!({"name": "nas"})).refused(),
        seed("GET", "/app/tools", Value::Null),
        seed("PATCH", "/app/tools", json!({"web": false, "folder": null})),
        seed(
            "POST",
            "/app/tools/servers",
            json!({"name": "notes", "command": "/nowhere/notes", "args": ["--all"],
            "variables": {"TOKEN": "t"}}),
        ),
        seed(
            "POST",
            "/app/tools/servers",
            json!({"name": "far", "url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "k"}}),
        ),
        seed(
            "POST",
            "/app/tools/import",
            json!({"text": "{\"mcpServers\": {\"more\": {\"command\": \"/nowhere/more\"}}}"}),
        ),
        at("PATCH", "/app/tools/servers/{name}", "/app/tools/servers/notes", json!({"enabled": false})).or_refused(),
        at("DELETE", "/app/tools/servers/{name}", "/app/tools/servers/notes", Value::Null).or_refused(),
        at("GET", "/app/tools/origins/{origin}", "/app/tools/origins/none", Value::Null).refused(),
        seed("PUT", "/app/tools/permission", json!({"origin": "none", "tool": "read", "permission": "always"}))
            .refused(),
        seed("GET", "/app/server", Value::Null),
        seed("GET", "/app/server/events", Value::Null),
        seed("POST", "/app/session", json!({"ticket": world.ticket})),
        seed("POST", "/app/session/ticket", Value::Null),
        seed("GET", "/app/settings", Value::Null),
        seed(
            "PATCH",
            "/app/settings",
            json!({"ui.theme": "dark", "ui.text_size": 100, "ui.follow": true,
            "engine.keep_alive": "5m", "models.linked": folder, "downloads.limit": 1_000_000, "server.names": "nas.local",
            "engine.max_queue": 64, "log.filter": null}),
        ),
        seed("PATCH", "/app/settings", json!({"engine.context": 256, "cache.ram": "1M", "network.proxy": ""}))
            .refused(),
        seed("GET", "/app/status", Value::Null),
        at("GET", "/app/log", "/app/log?lines=3", Value::Null),
        // The fuzzer sends it without a token only.
        seed("POST", super::STOP, Value::Null).refused(),
        seed("GET", "/metrics", Value::Null),
        seed("GET", "/openapi.json", Value::Null),
        seed("GET", "/ui", Value::Null),
        seed("GET", "/ui/", Value::Null),
        at("GET", "/ui/{*path}", "/ui/index.html", Value::Null),
        at("GET", "/ui/{*path}", "/ui/assets/a.js", Value::Null).refused(),
    ]
}

fn registry(world: &World) -> Vec<Seed> {
    let World { model, digest, registry, .. } = world;
    let path = format!("/v2/library/{model}");
    vec![
        seed("GET", "/app/mirror", Value::Null),
        seed("POST", "/app/mirror/invite", Value::Null),
        seed("POST", "/app/mirror/join", json!({"address": registry, "code": "ABCDE-FGHIJ-KLMNO-PQRST"})).refused(),
        seed("POST", "/app/mirror/allow", json!({"key": world.key})),
        seed("POST", "/app/mirror/forget", json!({"which": world.key})),
        seed("GET", "/v2", Value::Null),
        seed("GET", "/v2/", Value::Null),
        at("GET", "/v2/{namespace}/{model}/blobs/{digest}", format!("{path}/blobs/{digest}"), Value::Null),
        at("GET", "/v2/{namespace}/{model}/manifests/{reference}", format!("{path}/manifests/latest"), Value::Null),
        at(
            "GET",
            "/v2/{namespace}/{model}/manifests/{reference}",
            format!("{path}/manifests/latest?ns={registry}"),
            Value::Null,
        )
        .refused(),
        at("GET", "/v2/token", "/v2/token?service=cairn&scope=repository:library/a:pull&nonce=1&ts=1", Value::Null)
            .refused(),
        seed("GET", "/v2/_cairn/join", Value::Null),
        seed("POST", "/v2/_cairn/join", json!({"key": world.key, "label": "a", "nonce": "00", "proof": "00"}))
            .refused(),
    ]
}
