//! `POST /api/create`: creates a model from another model or from uploaded files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Message;

/// Request to create a model. Unsupported fields are read too, so that they can be refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct CreateRequest {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// Name of `model` in older clients.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub from: String,
    /// Names and digests of uploaded files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_files: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<Licenses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renderer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantize: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_quantize: Option<String>,
    /// Cairn's own field: digest of an uploaded importance matrix, by which the quantization weights its errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imatrix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_host: Option<String>,
    /// Fields that override the details of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<Map<String, Value>>,
    /// Cairn's own field: whether the registry of a missing base may be used over plain HTTP.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Stream one JSON object per step; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// One licence text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Licenses {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Licenses {
    /// Returns all texts.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// A step of a long operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressLine {
    /// Name of the step; the last one is `success`.
    pub status: String,
    /// Digest of the blob; [`ProgressLine::QUANTISED`] during quantization.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Bytes in total.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub total: u64,
    /// Bytes completed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub completed: u64,
    /// Cairn's own field: problems of the new model, if the response is not streamed. In a stream, each is a line of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ProgressLine {
    /// Placeholder for the digest of a blob that is still being written.
    pub const QUANTISED: &str = "0000000000000000000";
}
