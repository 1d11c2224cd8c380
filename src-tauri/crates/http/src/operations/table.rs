//! The table of operations, by API and path.

use super::ParameterKind::{Bool, Choice, Number, Text};
use super::{Header, Operation, Parameter, get_ as get, operation, post};
use crate::body::BodyLimit;

const fn parameter(name: &'static str, kind: super::ParameterKind, about: &'static str) -> Parameter {
    Parameter { name, kind, about }
}

const LIMIT: Parameter = parameter("limit", Number, "Largest number of entries.");

const OWNER: Header =
    Header { name: "X-Cairn-Owner", about: "The owner, as which the cached rows of the request can be deleted." };
const INCOGNITO: Header = Header { name: "X-Cairn-Incognito", about: "`1` leaves nothing in the cache." };
const PRIORITY: Header = Header {
    name: "X-Cairn-Priority",
    about: "`batch` computes the answer when others leave time; the default is `interactive`.",
};
/// Headers of a request for an answer.
const ANSWER: &[Header] = &[OWNER, INCOGNITO, PRIORITY];
/// Headers of a request for embeddings or scores, which leaves nothing in the cache.
const EMBEDDING: &[Header] = &[PRIORITY];

pub(super) const OPERATIONS: &[Operation] = &[
    // The API of Ollama.
    get("/", "Reports that the server runs").other("text/plain"),
    get("/api/version", "Returns the version").json("ollama.VersionResponse"),
    get("/api/status", "Reports whether models of a cloud can be used").json("ollama.CloudResponse"),
    get("/api/tags", "Lists all models").json("ollama.TagsResponse"),
    get("/api/ps", "Lists loaded models").json("ollama.PsResponse"),
    post("/api/show", "Returns information about a model").takes("ollama.ShowRequest").json("ollama.ShowResponse"),
    post("/api/chat", "Generates the next message of a conversation")
        .takes("ollama.ChatRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .lines("ollama.ChatChunk")
        .json("ollama.ChatChunk"),
    post("/api/generate", "Generates the answer to one prompt")
        .takes("ollama.GenerateRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .lines("ollama.GenerateChunk")
        .json("ollama.GenerateChunk"),
    post("/api/embed", "Computes the vectors of texts, of length 1")
        .takes("ollama.EmbedRequest")
        .limit(BodyLimit::PROMPT)
        .headers(EMBEDDING)
        .json("ollama.EmbedResponse"),
    post("/api/embeddings", "Computes the vector of a text")
        .takes("ollama.EmbeddingsRequest")
        .limit(BodyLimit::PROMPT)
        .headers(EMBEDDING)
        .json("ollama.EmbeddingsResponse"),
    post("/api/create", "Creates a model from another model or from uploaded files")
        .takes("ollama.CreateRequest")
        .limit(BodyLimit::MODELFILE)
        .lines("ollama.ProgressLine")
        .json("ollama.ProgressLine"),
    post("/api/copy", "Gives a model a second name").takes("ollama.CopyRequest"),
    operation("DELETE", "/api/delete", "Deletes a model").takes("ollama.DeleteRequest"),
    post("/api/pull", "Downloads a model").takes("ollama.PullRequest").lines("ollama.PullLine").json("ollama.PullLine"),
    post("/api/push", "Uploads a model").takes("ollama.PushRequest").lines("ollama.PullLine").json("ollama.PullLine"),
    operation("HEAD", "/api/blobs/{digest}", "Reports whether a blob exists").also(&[404]),
    post("/api/blobs/{digest}", "Uploads a blob").takes_bytes().status(201).also(&[200]),
    // The API of OpenAI.
    get("/v1/models", "Lists all models").json("openai.ModelList"),
    get("/v1/models/{*model}", "Returns one model").json("openai.Model"),
    post("/v1/chat/completions", "Generates the next message of a conversation")
        .takes("openai.ChatCompletionRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .json("openai.ChatCompletion")
        .events("openai.ChatCompletionChunk"),
    post("/v1/completions", "Continues a text")
        .takes("openai.CompletionRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .json("openai.Completion")
        .events("openai.Completion"),
    post("/v1/embeddings", "Computes the vectors of texts")
        .takes("openai.EmbeddingRequest")
        .limit(BodyLimit::PROMPT)
        .headers(EMBEDDING)
        .json("openai.EmbeddingList"),
    post("/v1/rerank", "Orders documents by their relevance for a query")
        .takes("openai.RerankRequest")
        .limit(BodyLimit::PROMPT)
        .headers(EMBEDDING)
        .json("openai.RerankResponse"),
    post("/v1/responses", "Generates the next items of a conversation")
        .takes("openai.ResponsesRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .json("openai.ResponseObject")
        .events("openai.SequencedEvent"),
    post("/v1/audio/{*endpoint}", "Refuses speech, which no model of this server understands"),
    // The API of Anthropic.
    post("/v1/messages", "Generates the next message of a conversation")
        .takes("anthropic.MessagesRequest")
        .limit(BodyLimit::PROMPT)
        .headers(ANSWER)
        .json("anthropic.MessageResponse")
        .events("anthropic.StreamEvent"),
    post("/v1/messages/count_tokens", "Counts the tokens of a conversation")
        .takes("anthropic.MessagesRequest")
        .limit(BodyLimit::PROMPT)
        .json("anthropic.TokenCount"),
    // The API of Cairn's own clients.
    get("/app/attend", "Keeps the daemon running while the client reads").other("application/x-ndjson").endless(),
    get("/app/cache", "Returns the state of the cache").json("app.CacheResponse"),
    get("/app/cache/events", "Sends the state of the cache after each change").lines("app.CacheResponse").endless(),
    get("/app/cache/contexts", "Lists cached contexts").json("app.CacheContexts"),
    post("/app/cache/pin", "Pins a context").takes("app.CacheWhich").json("app.CacheContexts"),
    post("/app/cache/unpin", "Unpins a context").takes("app.CacheWhich").json("app.CacheContexts"),
    post("/app/cache/drop", "Deletes a context").takes("app.CacheWhich").json("app.CacheDeleted"),
    operation("DELETE", "/app/cache/owner", "Deletes the contexts of an owner")
        .takes("app.CacheOwner")
        .json("app.CacheDeleted"),
    post("/app/cache/clear", "Deletes a tier or all tiers").takes("app.CacheClear").json("app.CacheDeleted"),
    post("/app/cache/prefetch", "Restores the contexts of an owner to RAM")
        .takes("app.CacheOwner")
        .status(202)
        .json("app.CachePrefetched"),
    get("/app/cache/fsck", "Checks the SSD tier").json("app.CacheFsck"),
    get("/app/cache/limits", "Returns the limits of the tiers").json("app.CacheLimits"),
    operation("PUT", "/app/cache/limits", "Changes limits of tiers")
        .takes("app.CacheLimitsChange")
        .json("app.CacheLimits"),
    post("/app/cache/test", "Tests places for tiers").takes("app.CacheTestRequest").json("app.CacheTested"),
    post("/app/cache/trace", "Looks up a prompt and explains a miss")
        .takes("app.CacheTraceRequest")
        .limit(BodyLimit::PROMPT)
        .json("app.CacheTrace"),
    get("/app/chats", "Lists chats")
        .query(&[
            parameter("folder", Text, "Only chats of this folder."),
            parameter("trash", Bool, "Only chats in the trash."),
            parameter("temporary", Bool, "Only chats that are not stored."),
            LIMIT,
            parameter("after", Text, "`next` of the previous page."),
        ])
        .json("app.ChatsResponse"),
    post("/app/chats", "Creates a chat").takes("app.NewChatRequest").status(201).json("app.Chat"),
    get("/app/chats/{id}", "Returns a chat").json("app.Chat"),
    operation("PATCH", "/app/chats/{id}", "Changes a chat").takes("app.ChatChange").json("app.Chat"),
    operation("DELETE", "/app/chats/{id}", "Moves a chat to the trash, or deletes it")
        .query(&[parameter("forever", Bool, "Delete the chat at once.")])
        .status(204),
    post("/app/chats/{id}/restore", "Restores a chat from the trash").json("app.ChatSummary"),
    post("/app/chats/{id}/prefetch", "Restores the cached rows of a chat to RAM")
        .status(202)
        .json("app.ChatPrefetched"),
    get("/app/chats/{id}/messages", "Lists messages of a branch")
        .query(&[
            parameter("leaf", Text, "Last message of the branch; if absent, the chat's head."),
            parameter("before", Text, "Only messages before this one."),
            LIMIT,
        ])
        .json("app.MessagesResponse"),
    post("/app/chats/{id}/messages", "Sends a message and follows the answer")
        .takes("app.SendRequest")
        .limit(BodyLimit::PROMPT)
        .lines("app.ChatLine"),
    operation("DELETE", "/app/chats/{id}/messages/{message}", "Deletes a message and all that follow it")
        .json("app.DeletedMessages"),
    post("/app/chats/{id}/messages/restore", "Restores deleted messages")
        .takes("app.DeletedMessages")
        .limit(BodyLimit::EXPORT)
        .json("app.Chat"),
    post("/app/chats/{id}/edit", "Adds an edited version of an answer")
        .takes("app.EditRequest")
        .limit(BodyLimit::PROMPT)
        .json("app.Chat"),
    post("/app/chats/{id}/fork", "Copies the messages up to one into a new chat")
        .takes("app.ForkRequest")
        .status(201)
        .json("app.Chat"),
    operation("PUT", "/app/chats/{id}/head", "Selects a branch").takes("app.HeadRequest").json("app.Chat"),
    get("/app/chats/{id}/answer", "Follows the answer in progress; 204 if none is").lines("app.ChatLine").also(&[204]),
    post("/app/chats/{id}/answer", "Generates another answer, or continues one")
        .takes("app.AnswerRequest")
        .lines("app.ChatLine"),
    post("/app/chats/{id}/stop", "Stops the answer").json("app.StoppedResponse"),
    post("/app/chats/{id}/calls/{call}", "Allows or refuses a call of a tool that waits")
        .takes("app.DecideCallRequest")
        .status(204),
    get("/app/chats/{id}/export", "Exports a chat")
        .query(&[parameter("format", Choice(&["json", "md"]), "Format of the export.")])
        .json("app.ChatsExport")
        .other("text/markdown"),
    get("/app/chats/events", "Sends changes of chats").lines("app.ChatEvent").endless(),
    get("/app/chats/export", "Exports all chats").json("app.ChatsExport"),
    get("/app/chats/import", "Finds chats of other apps").json("app.ChatsToImport"),
    post("/app/chats/import", "Imports chats")
        .takes("app.ChatsImportRequest")
        .limit(BodyLimit::EXPORT)
        .json("app.ChatsImported"),
    get("/app/chats/search", "Searches titles and messages")
        .query(&[parameter("q", Text, "The words."), LIMIT])
        .json("app.ChatSearchResponse"),
    get("/app/collections", "Lists collections of documents").json("app.CollectionsResponse"),
    post("/app/collections", "Creates a collection")
        .takes("app.NewCollectionRequest")
        .status(201)
        .json("app.Collection"),
    get("/app/collections/{id}", "Returns a collection with its documents").json("app.CollectionResponse"),
    operation("PATCH", "/app/collections/{id}", "Changes the name or the embedding model of a collection")
        .takes("app.CollectionChange")
        .json("app.Collection"),
    operation("DELETE", "/app/collections/{id}", "Deletes a collection with its documents").status(204),
    post("/app/collections/{id}/documents", "Adds a document to a collection")
        .takes_bytes()
        .limit(BodyLimit::DOCUMENT)
        .query(&[parameter("name", Text, "The file name.")])
        .status(201)
        .json("app.CollectionDocument"),
    operation("DELETE", "/app/collections/{id}/documents/{document}", "Removes a document from a collection")
        .status(204),
    post("/app/collections/{id}/search", "Finds passages in a collection by words and by meaning")
        .takes("app.CollectionSearch")
        .json("app.CollectionHits"),
    get("/app/presets", "Lists presets").json("app.PresetsResponse"),
    get("/app/presets/{name}", "Returns a preset").json("app.Preset"),
    operation("PUT", "/app/presets/{name}", "Stores a preset").takes("app.Preset").json("app.Preset"),
    operation("DELETE", "/app/presets/{name}", "Deletes a preset").status(204),
    post("/app/copy", "Copies a model and reports the progress").takes("ollama.CopyRequest").lines("app.CopyLine"),
    post("/app/delete", "Deletes a model and reports the freed space")
        .takes("ollama.DeleteRequest")
        .json("app.DeleteResponse"),
    get("/app/discover", "Searches models to pull")
        .query(&[
            parameter("q", Text, "The words; if empty, recommended models."),
            LIMIT,
            parameter("own", Bool, "Only models of Cairn's catalogue."),
        ])
        .json("app.DiscoverResponse"),
    post("/app/documents", "Returns the text of a document: PDF, DOCX, XLSX, PPTX, HTML, Markdown or text")
        .takes_bytes()
        .limit(BodyLimit::DOCUMENT)
        .query(&[parameter("name", Text, "The file name.")])
        .json("app.DocumentText"),
    get("/app/downloads", "Lists downloads").json("app.DownloadsResponse"),
    post("/app/downloads", "Downloads a model").takes("app.DownloadRequest").status(202).json("app.Download"),
    get("/app/downloads/events", "Sends the downloads after each change").lines("app.DownloadsResponse").endless(),
    post("/app/downloads/pause", "Pauses a download").takes("app.DownloadChoice").json("app.DownloadsResponse"),
    post("/app/downloads/resume", "Resumes a download").takes("app.ResumeRequest").json("app.DownloadsResponse"),
    post("/app/downloads/cancel", "Cancels a download").takes("app.DownloadChoice").json("app.DownloadsResponse"),
    post("/app/downloads/discard", "Cancels a download and deletes its files")
        .takes("app.DownloadChoice")
        .json("app.DownloadsResponse"),
    post("/app/downloads/reorder", "Moves a download in the queue")
        .takes("app.ReorderRequest")
        .json("app.DownloadsResponse"),
    post("/app/downloads/cap", "Limits the speed").takes("app.CapRequest").json("app.DownloadsResponse"),
    post("/app/gc", "Removes garbage from the library").takes("app.GcRequest").json("app.GcResponse"),
    get("/app/hardware", "Returns the hardware of the machine").json("app.HardwareResponse"),
    post("/app/hardware/measure", "Measures the kernels").json("app.HardwareResponse"),
    get("/app/hardware/events", "Sends the state of the hardware").lines("app.HardwareResponse").endless(),
    post("/app/import", "Imports a model file").takes("app.ImportRequest").lines("app.ImportLine"),
    get("/app/keys", "Lists API keys").json("app.KeysResponse"),
    post("/app/keys", "Creates an API key").takes("app.CreateKeyRequest").json("app.CreateKeyResponse"),
    post("/app/keys/revoke", "Revokes an API key").takes("app.RevokeKeyRequest").json("app.KeysResponse"),
    get("/app/libraries", "Lists the libraries of models").json("app.LibrariesResponse"),
    get("/app/tools", "Lists servers of tools and the tools of this program").json("app.ToolsResponse"),
    operation("PATCH", "/app/tools", "Changes the tools of this program")
        .takes("app.ToolsChange")
        .json("app.ToolsResponse"),
    post("/app/tools/import", "Adds servers of tools from the JSON of other apps")
        .takes("app.ImportToolsRequest")
        .json("app.ImportToolsResponse"),
    get("/app/tools/origins/{origin}", "Lists the tools of a server; starts it").json("app.OriginTools"),
    operation("PUT", "/app/tools/permission", "Sets whether a tool may be called")
        .takes("app.ToolPermissionRequest")
        .status(204),
    post("/app/tools/servers", "Adds a server of tools").takes("app.AddToolServerRequest").json("app.ToolsResponse"),
    operation("PATCH", "/app/tools/servers/{name}", "Turns a server of tools on or off")
        .takes("app.ToolServerChange")
        .json("app.ToolsResponse"),
    operation("DELETE", "/app/tools/servers/{name}", "Removes a server of tools").json("app.ToolsResponse"),
    get("/app/updates", "Compares pulled models with their registries")
        .query(&[
            parameter("model", Text, "The model; all pulled ones without it."),
            parameter("insecure", Bool, "Whether plain http is allowed."),
        ])
        .json("app.UpdatesResponse"),
    get("/app/usage", "Returns the disk usage of the libraries").json("app.UsageResponse"),
    post("/app/load", "Loads a model").takes("app.LoadRequest").status(204),
    get("/app/log", "Returns the end of the daemon's log")
        .query(&[parameter("lines", Number, "Largest number of lines.")])
        .json("app.LogResponse"),
    get("/app/logins", "Lists logins at registries").json("app.LoginsResponse"),
    post("/app/logins", "Verifies and stores a login").takes("app.LoginRequest").json("app.KnownLogin"),
    post("/app/logins/forget", "Removes a login").takes("app.LogoutRequest").json("app.LoginsResponse"),
    get("/app/mirror", "Returns the state of the mirror").json("app.MirrorResponse"),
    post("/app/mirror/invite", "Creates a join code").json("app.InviteResponse"),
    post("/app/mirror/join", "Joins a mirror").takes("app.JoinMirrorRequest").json("app.MirrorResponse"),
    post("/app/mirror/allow", "Trusts a key").takes("app.AllowRequest").json("app.MirrorResponse"),
    post("/app/mirror/forget", "Removes a mirror or key").takes("app.ForgetRequest").json("app.MirrorResponse"),
    post("/app/open", "Makes a model file available until the daemon stops")
        .takes("app.OpenRequest")
        .json("app.OpenResponse"),
    get("/app/remotes", "Lists remotes").json("app.RemotesResponse"),
    post("/app/remotes", "Adds a remote").takes("app.AddRemoteRequest").json("app.RemotesResponse"),
    post("/app/remotes/check", "Checks remotes").takes("app.CheckRemotesRequest").json("app.RemotesResponse"),
    post("/app/remotes/remove", "Removes a remote").takes("app.RemoveRemoteRequest").json("app.RemotesResponse"),
    post("/app/scan", "Finds models of other apps").takes("app.ScanRequest").lines("app.ScanLine"),
    get("/app/server", "Returns addresses, clients and recent requests").json("app.ServerResponse"),
    get("/app/server/events", "Sends the state of the server after each change").lines("app.ServerResponse").endless(),
    post("/app/session", "Exchanges a ticket for a session token")
        .takes("app.SessionRequest")
        .limit(BodyLimit::TINY)
        .json("app.SessionResponse"),
    post("/app/session/ticket", "Creates a ticket for a browser").json("app.TicketResponse"),
    get("/app/settings", "Returns all settings").json("app.SettingsResponse"),
    operation("PATCH", "/app/settings", "Changes settings")
        .takes("app.SettingsChange")
        .json("app.SettingsResponse")
        .refuses("app.SettingsRefused"),
    get("/app/speeds", "Returns the speeds of the installed models").json("app.SpeedsResponse"),
    get("/app/status", "Returns the state of the daemon").json("app.StatusResponse"),
    post("/app/stop", "Stops the daemon").status(202),
    post("/app/verify", "Compares blobs with their digests").takes("app.VerifyRequest").lines("app.VerifyLine"),
    // A registry, as the OCI distribution specification has it.
    get("/v2", "Reports that this is a registry").other("application/json"),
    get("/v2/", "Reports that this is a registry").other("application/json"),
    get("/v2/token", "Issues a token to a machine with a trusted key")
        .query(&[
            parameter("service", Text, "`cairn`"),
            parameter("scope", Text, "`repository:NAMESPACE/MODEL:pull`"),
            parameter("nonce", Text, "A number that is used once."),
            parameter("ts", Text, "Time of the request."),
        ])
        .other("application/json"),
    get("/v2/_cairn/join", "Returns the public key of this machine").other("application/json"),
    post("/v2/_cairn/join", "Adds a key with the proof of a join code").takes_other_json().other("application/json"),
    get("/v2/{namespace}/{model}/manifests/{reference}", "Returns a manifest")
        .query(&[parameter("ns", Text, "Host of the registry that the model is from.")])
        .other("application/vnd.docker.distribution.manifest.v2+json"),
    get("/v2/{namespace}/{model}/blobs/{digest}", "Returns a blob or a range of it")
        .other("application/octet-stream")
        .also(&[206, 304, 416]),
    // Files of the interface.
    get("/ui", "Redirects to the interface").status(308),
    get("/ui/", "Returns the interface").other("text/html"),
    get("/ui/{*path}", "Returns a file of the interface").other("*/*"),
    // The server itself.
    get("/openapi.json", "Returns this document").other("application/json"),
    get("/metrics", "Returns metrics for Prometheus").other("text/plain"),
];
