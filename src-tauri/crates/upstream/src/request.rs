//! A request for an answer, and the form that a server of some kind gets.

use bytes::Bytes;
use cairn_wire::ollama::{ChatRequest, GenerateRequest};
use serde_json::{Map, Value, json};

use crate::affinity::Prefix;
use crate::frames::Framing;
use crate::openai;
use crate::reading::{OpenAiReader, Reader};
use crate::server_kind::ServerKind;
use crate::translation::TranslationError;

/// An endpoint that computes answers, vectors or scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Ollama's `/api/chat`.
    OllamaChat,
    /// Ollama's `/api/generate`.
    OllamaGenerate,
    /// OpenAI's `/v1/chat/completions`.
    OpenAiChat,
    /// OpenAI's `/v1/completions`.
    OpenAiCompletions,
    /// Ollama's `/api/embed`.
    OllamaEmbed,
    /// Ollama's `/api/embeddings`.
    OllamaEmbeddings,
    /// OpenAI's `/v1/embeddings`.
    OpenAiEmbeddings,
    /// `/v1/rerank` of vLLM, SGLang, llama-server and Cairn.
    Rerank,
}

impl Endpoint {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::OllamaChat => "/api/chat",
            Self::OllamaGenerate => "/api/generate",
            Self::OpenAiChat => "/v1/chat/completions",
            Self::OpenAiCompletions => "/v1/completions",
            Self::OllamaEmbed => "/api/embed",
            Self::OllamaEmbeddings => "/api/embeddings",
            Self::OpenAiEmbeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
        }
    }

    fn is_ollama(self) -> bool {
        matches!(self, Self::OllamaChat | Self::OllamaGenerate | Self::OllamaEmbed | Self::OllamaEmbeddings)
    }

    /// Whether the endpoint computes an answer to a conversation or prompt. Other responses are never streamed, and no KV cache
    /// makes them faster.
    #[must_use]
    pub fn has_answer(self) -> bool {
        match self {
            Self::OllamaChat | Self::OllamaGenerate | Self::OpenAiChat | Self::OpenAiCompletions => true,
            Self::OllamaEmbed | Self::OllamaEmbeddings | Self::OpenAiEmbeddings | Self::Rerank => false,
        }
    }

    /// Whether a server of this kind has the endpoint.
    #[must_use]
    pub fn is_served_by(self, kind: ServerKind) -> bool {
        match self {
            Self::Rerank => kind != ServerKind::Ollama,
            _ => !self.is_ollama() || kind.has_ollama_api(),
        }
    }

    /// What to do if no server has the endpoint.
    fn hint(self) -> &'static str {
        match self {
            Self::OllamaEmbed | Self::OllamaEmbeddings => "send the request to /v1/embeddings",
            _ => "use a model of another remote, or a local one",
        }
    }

    /// Whether the status means that a server which lists the model does not serve it here. Servers of OpenAI's API have some
    /// endpoints only for models of one kind. Ollama and Cairn respond with 404 if the model is absent.
    pub(crate) fn is_missing(self, kind: ServerKind, status: u16) -> bool {
        !self.has_answer() && (status == 501 || !kind.has_ollama_api() && matches!(status, 404 | 405))
    }

    /// Whether responses are streamed if the request does not decide.
    fn streams_by_default(self) -> bool {
        self.is_ollama()
    }

    fn framing(self, is_streamed: bool) -> Framing {
        match (is_streamed, self.is_ollama()) {
            (false, _) => Framing::Whole,
            (true, true) => Framing::Lines,
            (true, false) => Framing::Events,
        }
    }

    /// `is_raw`: whether the bytes of the response are passed on.
    fn reader(self, is_raw: bool) -> Reader {
        match (self.has_answer(), self.is_ollama()) {
            (false, _) => Reader::Usage,
            (true, true) => Reader::Ollama,
            (true, false) if is_raw => Reader::OpenAi(Box::default()),
            (true, false) => Reader::OpenAi(Box::new(OpenAiReader::translating())),
        }
    }
}

/// A request for an answer.
#[derive(Debug, Clone)]
pub enum Request {
    /// The next message of a conversation, for any kind of server.
    Chat(Box<ChatRequest>),
    /// The answer to a prompt, for any kind of server.
    Generate(Box<GenerateRequest>),
    /// A client's own request, for servers that have the endpoint. Only the model's name is replaced.
    Raw {
        /// The endpoint that the client requested.
        endpoint: Endpoint,
        /// The body.
        body: Map<String, Value>,
    },
}

/// A request as it is sent.
pub(crate) struct Outbound {
    pub(crate) endpoint: Endpoint,
    pub(crate) body: Bytes,
    pub(crate) framing: Framing,
    pub(crate) reader: Reader,
    /// Whether the client did not request the usage, so that its frame must not reach the client.
    pub(crate) hides_usage: bool,
}

impl Request {
    /// The blocks of the conversation, by which a server is chosen. A request without an answer has none. `model` is a spelling of
    /// the model's name that is the same for all spellings.
    #[must_use]
    pub fn prefix(&self, model: &str) -> Prefix {
        let text = |value: &Value| value.to_string().into_bytes();
        match self {
            Self::Chat(request) => {
                let tools = request.tools.iter().flatten().map(text);
                let messages = request.messages.iter().map(|message| {
                    let calls = message.tool_calls.as_ref().map(|calls| serde_json::to_vec(calls).unwrap_or_default());
                    [message.role.as_bytes(), message.content.as_bytes(), calls.as_deref().unwrap_or_default()].join(&0)
                });
                Prefix::of(model, tools.chain(messages))
            }
            Self::Generate(request) => {
                let parts = [request.system.as_deref(), Some(request.prompt.as_str())];
                Prefix::of(model, parts.into_iter().flatten().map(|part| part.as_bytes().to_vec()))
            }
            Self::Raw { endpoint, .. } if !endpoint.has_answer() => Prefix::of_hashes(Vec::new()),
            Self::Raw { body, .. } => {
                let parts = ["tools", "system", "messages", "prompt"].into_iter().filter_map(|name| body.get(name));
                let items = parts.flat_map(|part| match part {
                    Value::Array(items) => items.iter().map(text).collect::<Vec<_>>(),
                    Value::String(prompt) => vec![prompt.clone().into_bytes()],
                    other => vec![text(other)],
                });
                Prefix::of(model, items)
            }
        }
    }

    /// The form for a server that calls the model `model`.
    pub(crate) fn outbound(&self, kind: ServerKind, model: &str) -> Result<Outbound, TranslationError> {
        let as_object = |value: Result<Value, serde_json::Error>| match value {
            Ok(Value::Object(body)) => body,
            _ => Map::new(),
        };
        let (endpoint, mut body) = match self {
            Self::Chat(request) if kind.has_ollama_api() => {
                (Endpoint::OllamaChat, as_object(serde_json::to_value(request)))
            }
            Self::Generate(request) if kind.has_ollama_api() => {
                (Endpoint::OllamaGenerate, as_object(serde_json::to_value(request)))
            }
            Self::Chat(request) => (Endpoint::OpenAiChat, openai::chat(request)?),
            Self::Generate(request) => (Endpoint::OpenAiChat, openai::generate(request)?),
            Self::Raw { endpoint, .. } if !endpoint.is_served_by(kind) => {
                return Err(TranslationError::Endpoint { path: endpoint.path(), hint: endpoint.hint() });
            }
            Self::Raw { endpoint, body } => (*endpoint, body.clone()),
        };
        body.insert("model".to_owned(), Value::from(model));
        let stream = body.get("stream").and_then(Value::as_bool);
        let is_streamed = endpoint.has_answer() && stream.unwrap_or(endpoint.streams_by_default());
        let mut hides_usage = false;
        if is_streamed && !endpoint.is_ollama() {
            // Without it the server does not report the usage of a stream.
            let options = body.entry("stream_options").or_insert_with(|| json!({}));
            hides_usage = options.get("include_usage").and_then(Value::as_bool) != Some(true);
            match options {
                Value::Object(options) => drop(options.insert("include_usage".to_owned(), Value::Bool(true))),
                other => *other = json!({"include_usage": true}),
            }
        }
        let body = serde_json::to_vec(&body).expect("JSON values are serialisable");
        Ok(Outbound {
            endpoint,
            body: body.into(),
            framing: endpoint.framing(is_streamed),
            reader: endpoint.reader(matches!(self, Self::Raw { .. })),
            hides_usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(endpoint: Endpoint, body: Value) -> Request {
        let Value::Object(body) = body else { panic!("an object") };
        Request::Raw { endpoint, body }
    }

    #[test]
    fn raw_request_differs_only_in_model_and_usage() {
        let request =
            raw(Endpoint::OpenAiChat, json!({"z": [1.50, {"b": 1, "a": 2}], "model": "m", "stream": true, "x": null}));
        let sent = request.outbound(ServerKind::OpenAi, "Org/M").unwrap();
        let expected = r#"{"z":[1.5,{"b":1,"a":2}],"model":"Org/M","stream":true,"x":null,"stream_options":{"include_usage":true}}"#;
        assert_eq!(sent.body, expected);
        assert_eq!(
            (sent.endpoint.path(), sent.framing, sent.hides_usage),
            ("/v1/chat/completions", Framing::Events, true)
        );
        let request =
            raw(Endpoint::OpenAiChat, json!({"model": "m", "stream": true, "stream_options": {"include_usage": true}}));
        assert!(!request.outbound(ServerKind::OpenAi, "m").unwrap().hides_usage, "the client requested the usage");
        let request = raw(Endpoint::OpenAiChat, json!({"model": "m"}));
        assert_eq!(
            request.outbound(ServerKind::OpenAi, "m").unwrap().framing,
            Framing::Whole,
            "not streamed by default"
        );
        let request = raw(Endpoint::OllamaChat, json!({"model": "m"}));
        assert_eq!(request.outbound(ServerKind::Ollama, "m").unwrap().framing, Framing::Lines, "streamed by default");
    }

    #[test]
    fn form_depends_on_the_kind_of_server() {
        let request = Request::Chat(Box::new(ChatRequest { model: "m".to_owned(), ..ChatRequest::default() }));
        assert_eq!(request.outbound(ServerKind::Ollama, "m").unwrap().endpoint, Endpoint::OllamaChat);
        assert_eq!(request.outbound(ServerKind::OpenAi, "m").unwrap().endpoint, Endpoint::OpenAiChat);
        assert!(
            Endpoint::OpenAiChat.is_served_by(ServerKind::Ollama)
                && !Endpoint::OllamaChat.is_served_by(ServerKind::OpenAi)
        );
    }

    #[test]
    fn request_without_an_answer_is_not_streamed_and_has_no_prefix() {
        let input = "word ".repeat(1000);
        for endpoint in
            [Endpoint::OllamaEmbed, Endpoint::OllamaEmbeddings, Endpoint::OpenAiEmbeddings, Endpoint::Rerank]
        {
            let body = json!({"model": "m", "input": input, "prompt": input, "query": input, "stream": true});
            let request = raw(endpoint, body.clone());
            let sent = request.outbound(ServerKind::Cairn, "m").unwrap();
            assert_eq!((sent.framing, sent.hides_usage), (Framing::Whole, false), "{endpoint:?}");
            assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), body, "{endpoint:?}");
            assert!(request.prefix("m").blocks().is_empty(), "{endpoint:?}");
        }
        let check = |endpoint: Endpoint, kind, expected: &str| {
            let error = raw(endpoint, json!({})).outbound(kind, "m").err().expect("refused").to_string();
            assert_eq!(error, expected);
        };
        check(
            Endpoint::OllamaEmbed,
            ServerKind::OpenAi,
            "the server has no /api/embed; send the request to /v1/embeddings",
        );
        let no_rerank = "the server has no /v1/rerank; use a model of another remote, or a local one";
        check(Endpoint::Rerank, ServerKind::Ollama, no_rerank);
    }

    #[test]
    fn next_turn_has_the_blocks_of_the_turn_before() {
        let long = "word ".repeat(1000);
        let message = |role: &str, content: &str| cairn_wire::ollama::Message {
            role: role.to_owned(),
            content: content.to_owned(),
            ..Default::default()
        };
        let chat = |messages: Vec<_>| {
            Request::Chat(Box::new(ChatRequest { model: "m".to_owned(), messages, ..ChatRequest::default() }))
                .prefix("m")
        };
        let first = chat(vec![message("user", &long)]);
        let second = chat(vec![message("user", &long), message("assistant", "Yes."), message("user", "Why?")]);
        assert!(first.blocks().len() >= 9 && second.blocks().starts_with(first.blocks()), "a common prefix");
        let other = chat(vec![message("system", "x"), message("user", &long)]);
        assert_ne!(other.blocks()[0], first.blocks()[0], "another beginning");
    }
}
