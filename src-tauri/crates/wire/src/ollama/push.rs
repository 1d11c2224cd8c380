//! `POST /api/push`: uploads a model to its registry. The response is a stream of [`super::PullLine`]s.

use serde::{Deserialize, Serialize};

/// Request to push a model. `username` and `password` of older clients are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct PushRequest {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_accepts_fields_of_older_clients() {
        let old = r#"{"name":"m","insecure":null,"username":"me","password":"secret","stream":false}"#;
        let request: PushRequest = serde_json::from_str(old).unwrap();
        let expected = PushRequest { name: "m".into(), stream: Some(false), ..PushRequest::default() };
        assert_eq!(request, expected, "user name and password are ignored");
    }
}
