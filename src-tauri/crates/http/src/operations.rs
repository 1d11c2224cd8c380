//! The operations of the HTTP interfaces as an OpenAPI 3.1 document, served at [`PATH`].
//!
//! [`table`] has one line per operation: method, path, and the names of its `wire` types. `cargo xtask gen` renders the
//! table ([`document`]), adds the schemas of the types from the source of `cairn-wire`, and writes
//! `src-tauri/openapi.json`. An integration test compares the table with the router.
//!
//! Specification: <https://spec.openapis.org/oas/v3.1.0>.

mod render;
mod table;

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::Server;
use crate::body::BodyLimit;

pub use render::document;

/// Path of the document.
const PATH: &str = "/openapi.json";
/// The generated document.
const DOCUMENT: &str = include_str!("../../../openapi.json");

pub(crate) fn routes() -> Router<Server> {
    Router::new().route(PATH, get(async || serve()))
}

/// Returns the paths without placeholders below a prefix, in the order of the table.
pub(crate) fn paths_below(prefix: &str) -> Vec<&'static str> {
    let mut paths: Vec<&str> = table::OPERATIONS.iter().filter_map(|row| row.path.strip_prefix(prefix)).collect();
    paths.retain(|path| !path.contains('{'));
    paths.dedup();
    paths
}

fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], DOCUMENT).into_response()
}

/// Method and path with what a client sends and receives.
#[derive(Debug, Clone, Copy)]
struct Operation {
    method: &'static str,
    /// Path as the router has it.
    path: &'static str,
    /// What it does, in the third person.
    about: &'static str,
    body: Body,
    limit: BodyLimit,
    /// Parameters of the query.
    query: &'static [Parameter],
    /// Headers that are read, besides those of every request.
    headers: &'static [Header],
    /// Status of success.
    status: u16,
    /// Bodies of success; more than one if the request selects the form.
    responses: [Option<Content>; 2],
    /// Further statuses without a described body.
    also: &'static [u16],
    /// Type of an error that has more fields than others.
    refusal: Option<&'static str>,
    /// Whether the response only ends with the connection.
    is_endless: bool,
}

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Empty,
    /// JSON of a `wire` type.
    Json(&'static str),
    /// JSON of a type that is not part of `wire`.
    OtherJson,
    Bytes,
}

/// What a client receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// One JSON text.
    Json(&'static str),
    /// One JSON text per line.
    Lines(&'static str),
    /// Server-sent events with JSON data.
    Events(&'static str),
    /// A body of this media type, without a schema.
    Other(&'static str),
}

/// A header of a request.
#[derive(Debug, Clone, Copy)]
struct Header {
    name: &'static str,
    about: &'static str,
}

/// A parameter of the query.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    name: &'static str,
    kind: ParameterKind,
    about: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum ParameterKind {
    Text,
    Number,
    Bool,
    Choice(&'static [&'static str]),
}

const fn operation(method: &'static str, path: &'static str, about: &'static str) -> Operation {
    Operation {
        method,
        path,
        about,
        body: Body::Empty,
        limit: BodyLimit::DEFAULT,
        query: &[],
        headers: &[],
        status: 200,
        responses: [None, None],
        also: &[],
        refusal: None,
        is_endless: false,
    }
}

const fn get_(path: &'static str, about: &'static str) -> Operation {
    operation("GET", path, about)
}

const fn post(path: &'static str, about: &'static str) -> Operation {
    operation("POST", path, about)
}

/// Types are named as in `cairn_wire`: `ollama.ChatRequest`, or `ErrorBody` for a type of its root.
impl Operation {
    const fn takes(self, ty: &'static str) -> Self {
        Self { body: Body::Json(ty), ..self }
    }

    const fn takes_other_json(self) -> Self {
        Self { body: Body::OtherJson, ..self }
    }

    const fn takes_bytes(self) -> Self {
        Self { body: Body::Bytes, ..self }
    }

    const fn limit(self, limit: BodyLimit) -> Self {
        Self { limit, ..self }
    }

    const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    const fn headers(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    const fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    const fn responds(self, content: Content) -> Self {
        let responses = match self.responses {
            [None, _] => [Some(content), None],
            [first, _] => [first, Some(content)],
        };
        Self { responses, ..self }
    }

    const fn json(self, ty: &'static str) -> Self {
        self.responds(Content::Json(ty))
    }

    const fn lines(self, ty: &'static str) -> Self {
        self.responds(Content::Lines(ty))
    }

    const fn events(self, ty: &'static str) -> Self {
        self.responds(Content::Events(ty))
    }

    const fn other(self, media_type: &'static str) -> Self {
        self.responds(Content::Other(media_type))
    }

    const fn also(self, also: &'static [u16]) -> Self {
        Self { also, ..self }
    }

    const fn refuses(self, ty: &'static str) -> Self {
        Self { refusal: Some(ty), ..self }
    }

    const fn endless(self) -> Self {
        Self { is_endless: true, ..self }
    }
}

/// Returns method, path and largest body in bytes of the operations with a JSON body.
#[cfg(test)]
pub(crate) fn body_limits() -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    let has_body = |operation: &&Operation| matches!(operation.body, Body::Json(_) | Body::OtherJson);
    table::OPERATIONS
        .iter()
        .filter(has_body)
        .map(|operation| (operation.method, operation.path, operation.limit.bytes()))
}
