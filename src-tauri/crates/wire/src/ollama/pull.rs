//! `POST /api/pull`: downloads a model from its registry.

use serde::{Deserialize, Serialize};

/// Request to pull a model. `username` and `password` of older clients are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct PullRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// Name of `model` in older clients.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    /// Whether plain `http` is allowed.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub insecure: bool,
    /// Stream one JSON object per step; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Addresses of mirrors to try before the registry. Cairn's own field.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "super::null_is_empty")]
    pub sources: Vec<String>,
    /// Whether the model is downloaded even if this version cannot run it, for example to share it. Cairn's own field.
    #[serde(skip_serializing_if = "std::ops::Not::not", deserialize_with = "super::null_is_empty")]
    pub force: bool,
}

/// A step of a pull or push, or progress of one blob. The fields after `completed` are Cairn's own; Ollama's clients
/// ignore them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullLine {
    /// Name of the step; the last one is `success`.
    pub status: String,
    /// Digest of the blob, `sha256:...`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Bytes in total.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub total: u64,
    /// Bytes completed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub completed: u64,
    /// Speed.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub bytes_per_second: u64,
    /// Host of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The last error that was handled by a retry or another source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_ollamas_format() {
        let json = |line: &PullLine| serde_json::to_string(line).unwrap();
        let step = PullLine { status: "pulling manifest".into(), ..PullLine::default() };
        assert_eq!(json(&step), r#"{"status":"pulling manifest"}"#, "a step has only its name");
        let begun = PullLine { status: "pulling 6a07".into(), digest: "sha256:6a07".into(), total: 9, ..step };
        assert_eq!(
            json(&begun),
            r#"{"status":"pulling 6a07","digest":"sha256:6a07","total":9}"#,
            "`completed` is omitted while it is 0"
        );
        assert_eq!(serde_json::from_str::<PullLine>(&json(&begun)).unwrap(), begun, "the line parses");
    }

    #[test]
    fn request_accepts_fields_of_older_clients() {
        let old = r#"{"name":"m","insecure":null,"username":"me","password":"secret","stream":false}"#;
        let request: PullRequest = serde_json::from_str(old).unwrap();
        let expected = PullRequest { name: "m".into(), stream: Some(false), ..PullRequest::default() };
        assert_eq!(request, expected, "user name and password are ignored");
    }
}
