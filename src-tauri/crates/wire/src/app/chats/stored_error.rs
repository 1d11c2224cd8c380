//! Errors that are stored with messages, as another version may have written them.

use serde::{Deserialize, Deserializer};

use crate::ErrorBody;

/// Reads an error, or only its text, which older versions exported. A code that this version does not know is dropped.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ErrorBody>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Exported {
        Body(ErrorBody),
        Unknown { error: String },
        Text(String),
    }
    Ok(Option::<Exported>::deserialize(deserializer)?.map(|error| match error {
        Exported::Body(body) => body,
        Exported::Unknown { error } | Exported::Text(error) => ErrorBody::text(error),
    }))
}

#[cfg(test)]
mod tests {
    use crate::ErrorBody;
    use crate::app::chats::ChatMessage;

    #[test]
    fn error_with_unknown_code_keeps_its_text() {
        let json = r#"{"id":"1","role":"assistant","content":"","created_at":"2026-01-01T00:00:00Z","state":"failed",
            "error":{"error":"too hot","code":"code_of_a_later_version","params":{}}}"#;
        let message: ChatMessage = serde_json::from_str(json).expect("the message parses");
        assert_eq!(message.error, Some(ErrorBody::text("too hot")), "the text without the code");
    }
}
