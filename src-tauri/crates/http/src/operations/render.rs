//! Renders the table of operations as an OpenAPI document. References to schemas of `wire` types are not resolved: the
//! schemas are generated from the source of `cairn-wire`.

use serde_json::{Map, Value, json};

use super::table::OPERATIONS;
use super::{Body, Content, Header, Operation, Parameter, ParameterKind};
use crate::access::{Needs, needs_of};
use crate::error::{RegistryError, error_type};

/// Returns the document without the schemas of `wire` types.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = operation.path.replace("{*", "{");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[operation.method.to_ascii_lowercase()] = operation.to_json();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cairn",
            "summary": "Downloads, runs and serves language models on the user's own machine.",
            "version": cairn_app::VERSION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "http://127.0.0.1:11434"}],
        "paths": paths,
        "components": {
            "schemas": {},
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer",
                    "description": "The daemon token, or the session token of a browser page.",
                },
                "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
                "key_header": {
                    "type": "apiKey", "in": "header", "name": "x-api-key",
                    "description": "An API key, in the header of Anthropic's clients.",
                },
            },
        },
    })
}

impl Operation {
    fn to_json(self) -> Value {
        let mut json = json!({
            "operationId": self.id(),
            "summary": format!("{}.", self.about),
            "tags": [self.api()],
            "security": self.security(),
        });
        let parameters = self.parameters();
        if !parameters.is_empty() {
            json["parameters"] = parameters.into();
        }
        if let Some(body) = self.request_body() {
            json["requestBody"] = body;
        }
        json["responses"] = self.responses().into();
        if self.is_endless {
            json["x-endless"] = true.into();
        }
        json
    }

    /// `post_api_chat`
    fn id(self) -> String {
        let words = self.path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let slash = if self.path.len() > 1 && self.path.ends_with('/') { "_root" } else { "" };
        words.fold(self.method.to_ascii_lowercase(), |id, word| format!("{id}_{word}")) + slash
    }

    /// The API that it belongs to.
    fn api(self) -> &'static str {
        let has = |prefix: &str| self.path.starts_with(prefix);
        match () {
            () if has("/v1/messages") => "Anthropic",
            () if has("/v1/") => "OpenAI",
            () if has("/app/") => "Cairn",
            () if has("/v2") => "Registry",
            () if has("/ui") => "Interface",
            () if has("/api/") || self.path == "/" => "Ollama",
            () => "Server",
        }
    }

    /// The access table decides which token a path requires.
    fn security(self) -> Value {
        match needs_of(self.path) {
            Needs::Nothing => json!([]),
            Needs::KeyElsewhere => json!([{}, {"key": []}, {"key_header": []}]),
            Needs::TokenOrKey => json!([{"token": []}, {"key": []}, {"key_header": []}]),
        }
    }

    fn parameters(self) -> Vec<Value> {
        let placeholders = self.path.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        let names = placeholders.map(|(name, _)| name.trim_start_matches('*'));
        let path =
            names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        let query = self.query.iter().copied().map(Parameter::to_json);
        let headers = self.headers.iter().map(|Header { name, about }| {
            json!({"name": name, "in": "header", "description": about, "schema": {"type": "string"}})
        });
        path.chain(query).chain(headers).collect()
    }

    fn request_body(self) -> Option<Value> {
        let content = match self.body {
            Body::Empty => return None,
            Body::Json(ty) => json!({"application/json": {"schema": reference(ty)}}),
            Body::OtherJson => json!({"application/json": {"schema": {"type": "object"}}}),
            Body::Bytes => {
                return Some(json!({"required": true, "content": {"application/octet-stream": {}}}));
            }
        };
        Some(json!({
            "required": true,
            "description": format!("At most {} bytes. The content type is ignored.", self.limit.bytes()),
            "content": content,
        }))
    }

    fn responses(self) -> Map<String, Value> {
        let mut content = Map::new();
        for response in self.responses.into_iter().flatten() {
            let (media_type, body) = self.content(response);
            content.insert(media_type.to_owned(), body);
        }
        let lines = self.responses.iter().flatten().any(|content| matches!(content, Content::Lines(_)));
        let about = match (lines, self.is_endless) {
            (_, true) => "A line for each change, until the connection is closed.",
            (true, _) => "With `application/x-ndjson`, one JSON text per line. The last line may be an error.",
            _ => "Success.",
        };
        let mut responses = Map::new();
        responses.insert(self.status.to_string(), described(about, content));
        for status in self.also {
            responses.insert(status.to_string(), described("Without a body, or with bytes.", Map::new()));
        }
        for range in ["4XX", "5XX"] {
            let content = if self.method == "HEAD" { Map::new() } else { self.error_content() };
            responses.insert(range.to_owned(), described("Error.", content));
        }
        responses
    }

    /// The media type of a response and its schema.
    fn content(self, content: Content) -> (&'static str, Value) {
        let (media_type, schema) = match content {
            Content::Json(ty) => ("application/json", reference(ty)),
            Content::Lines(ty) => match error_type(self.path).filter(|_| !self.is_endless) {
                Some(error) => ("application/x-ndjson", json!({"anyOf": [reference(ty), reference(error)]})),
                None => ("application/x-ndjson", reference(ty)),
            },
            Content::Events(ty) => ("text/event-stream", reference(ty)),
            Content::Other(media_type) => return (media_type, json!({})),
        };
        (media_type, json!({"schema": schema}))
    }

    fn error_content(self) -> Map<String, Value> {
        let schema = error_type(self.path).map_or_else(RegistryError::schema, reference);
        let schema = match self.refusal {
            None => schema,
            Some(ty) => json!({"anyOf": [reference(ty), schema]}),
        };
        let mut content = Map::from_iter([("application/json".to_owned(), json!({"schema": schema}))]);
        if self.api() == "Interface" {
            content.insert("text/plain".to_owned(), json!({}));
        }
        content
    }
}

impl Parameter {
    fn to_json(self) -> Value {
        let schema = match self.kind {
            ParameterKind::Text => json!({"type": "string"}),
            ParameterKind::Number => json!({"type": "integer", "minimum": 0}),
            ParameterKind::Bool => json!({"type": "boolean"}),
            ParameterKind::Choice(words) => json!({"enum": words}),
        };
        json!({"name": self.name, "in": "query", "description": self.about, "schema": schema})
    }
}

/// A response of OpenAPI.
fn described(about: &str, content: Map<String, Value>) -> Value {
    match content.is_empty() {
        true => json!({"description": about}),
        false => json!({"description": about, "content": content}),
    }
}

/// A reference to the schema of a `wire` type.
fn reference(ty: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{ty}")})
}
