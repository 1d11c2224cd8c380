//! The result of a call, within limits.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::limits::{MAX_IMAGE_BYTES, MAX_RESULT_IMAGES, MAX_RESULT_PARTS, MAX_RESULT_TEXT_BYTES};
use crate::text::{cut, one_line};

/// Formats of images that are passed to models.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// All texts. What was cut or left out is noted at the end.
    pub text: String,
    /// Images.
    pub images: Vec<ToolImage>,
    /// Whether the tool reports a failure; the text has the reason.
    pub is_error: bool,
    /// Whether parts of the result were cut or left out.
    pub is_truncated: bool,
}

/// An image of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolImage {
    /// MIME type of the file.
    pub mime_type: String,
    /// The file as base64.
    pub data: String,
}

impl ToolResult {
    /// Returns a result with a text, within the limit.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut collector = Collector::default();
        collector.text(text);
        collector.finish(false)
    }
}

/// Reads a result of the protocol.
pub(crate) fn read(result: CallToolResult) -> ToolResult {
    let mut collector = Collector::default();
    let parts = result.content.len();
    for part in result.content.into_iter().take(MAX_RESULT_PARTS) {
        collector.part(part);
    }
    if parts > MAX_RESULT_PARTS {
        collector.omit(format!("{} more parts", parts - MAX_RESULT_PARTS));
    }
    // A structured result has the same contents as the texts, by the protocol's text.
    if let Some(structured) = result.structured_content.filter(|_| collector.is_empty()) {
        collector.text(&structured.to_string());
    }
    collector.finish(result.is_error == Some(true))
}

#[derive(Default)]
struct Collector {
    result: ToolResult,
    /// Bytes of all texts before cutting.
    text_bytes: usize,
    /// What was left out.
    omitted: Vec<String>,
}

impl Collector {
    fn is_empty(&self) -> bool {
        self.result.text.is_empty() && self.result.images.is_empty()
    }

    fn part(&mut self, part: ContentBlock) {
        match part {
            ContentBlock::Text(text) => self.text(&text.text),
            ContentBlock::Image(image) => self.image(image.mime_type, image.data),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.text(&format!("{}:\n{text}", one_line(&uri, 500)));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let mime_type = mime_type.unwrap_or_default();
                    match IMAGE_TYPES.contains(&&*mime_type) {
                        true => self.image(mime_type, blob),
                        false => self.omit(format!("a file, {}", one_line(&uri, 200))),
                    }
                }
                _ => self.omit("a resource of an unsupported kind".to_owned()),
            },
            ContentBlock::ResourceLink(link) => {
                self.text(&format!("{}: {}", one_line(&link.name, 200), one_line(&link.uri, 500)));
            }
            ContentBlock::Audio(audio) => self.omit(format!("a sound of {} bytes", audio.data.len() / 4 * 3)),
            _ => self.omit("a part of an unsupported kind".to_owned()),
        }
    }

    fn text(&mut self, text: &str) {
        let result = &mut self.result;
        if !result.text.is_empty() && !text.is_empty() && result.text.len() < MAX_RESULT_TEXT_BYTES {
            result.text.push('\n');
        }
        self.text_bytes += text.len();
        let part = cut(text, MAX_RESULT_TEXT_BYTES.saturating_sub(result.text.len()));
        result.text.push_str(part);
        result.is_truncated |= part.len() < text.len();
    }

    fn image(&mut self, mime_type: String, data: String) {
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        match () {
            () if !IMAGE_TYPES.contains(&&*mime_type) => {
                self.omit(format!("an image of the type {:?}", one_line(&mime_type, 64)));
            }
            () if data.len() > MAX_IMAGE_BYTES => self.omit(format!("an image of {} bytes", data.len() / 4 * 3)),
            () if self.result.images.len() >= MAX_RESULT_IMAGES => self.omit("an image".to_owned()),
            () if !data.bytes().all(is_base64) => self.omit("an image with invalid data".to_owned()),
            () => self.result.images.push(ToolImage { mime_type, data }),
        }
    }

    fn omit(&mut self, part: String) {
        self.omitted.push(part);
    }

    fn finish(self, is_error: bool) -> ToolResult {
        let Self { mut result, text_bytes, omitted } = self;
        result.is_error = is_error;
        let mut notes = Vec::new();
        if result.is_truncated {
            notes.push(format!(
                "[The text was cut: it has {text_bytes} bytes, and the limit is {MAX_RESULT_TEXT_BYTES}.]"
            ));
        }
        if !omitted.is_empty() {
            result.is_truncated = true;
            // The number of parts is limited, and their texts are short.
            notes.push(format!("[Left out: {}.]", omitted.join(", ")));
        }
        if !notes.is_empty() && !result.text.is_empty() {
            result.text.push_str("\n\n");
        }
        result.text.push_str(&notes.join("\n"));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(json: &str) -> ToolResult {
        read(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn texts_are_joined_and_structured_results_are_texts() {
        let both = r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"x":1}}"#;
        assert_eq!(result(both), ToolResult { text: "a\nb".to_owned(), ..ToolResult::default() });
        assert_eq!(result(r#"{"structuredContent":{"x":1}}"#).text, r#"{"x":1}"#);
        assert!(result(r#"{"content":[],"isError":true}"#).is_error);
    }

    #[test]
    fn long_texts_are_cut_with_a_note() {
        let text = "ä".repeat(MAX_RESULT_TEXT_BYTES);
        let cut = result(&format!(r#"{{"content":[{{"type":"text","text":"a"}},{{"type":"text","text":"{text}"}}]}}"#));
        assert!(cut.is_truncated);
        assert!(cut.text.len() < MAX_RESULT_TEXT_BYTES + 200, "{}", cut.text.len());
        assert!(
            cut.text.contains(&format!("it has {} bytes", 2 * MAX_RESULT_TEXT_BYTES + 1)),
            "{}",
            &cut.text[cut.text.len() - 200..]
        );
        let whole = ToolResult::from_text(&"a".repeat(MAX_RESULT_TEXT_BYTES));
        assert!(!whole.is_truncated && whole.text.len() == MAX_RESULT_TEXT_BYTES);
    }

    #[test]
    fn images_of_supported_types_are_passed_on() {
        let image = |mime: &str, data: &str| format!(r#"{{"type":"image","mimeType":"{mime}","data":"{data}"}}"#);
        let of = |parts: &[String]| result(&format!(r#"{{"content":[{}]}}"#, parts.join(",")));
        let one = of(&[image("image/png", "aGk=")]);
        assert_eq!(one.images, [ToolImage { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() }]);
        assert!(!one.is_truncated && one.text.is_empty());
        for (mime, data) in
            [("image/svg+xml", "aGk="), ("image/png", "<b>"), ("image/png", &"a".repeat(MAX_IMAGE_BYTES + 1))]
        {
            let omitted = of(&[image(mime, data)]);
            assert!(omitted.images.is_empty() && omitted.is_truncated, "{mime}");
            assert!(omitted.text.starts_with("[Left out: an image"), "{}", omitted.text);
        }
        let many = of(&vec![image("image/png", "aGk="); MAX_RESULT_IMAGES + 1]);
        assert_eq!((many.images.len(), many.is_truncated), (MAX_RESULT_IMAGES, true));
    }

    #[test]
    fn parts_of_other_kinds_are_named() {
        let audio = r#"{"type":"audio","mimeType":"audio/wav","data":"aaaa"}"#;
        let link = r#"{"type":"resource_link","name":"Log","uri":"file:///log"}"#;
        let file = r#"{"type":"resource","resource":{"uri":"file:///a.txt","text":"hi"}}"#;
        let all = result(&format!(r#"{{"content":[{audio},{link},{file}]}}"#));
        assert_eq!(all.text, "Log: file:///log\nfile:///a.txt:\nhi\n\n[Left out: a sound of 3 bytes.]");
        let many = vec![r#"{"type":"text","text":""}"#; MAX_RESULT_PARTS + 2].join(",");
        assert_eq!(result(&format!(r#"{{"content":[{many}]}}"#)).text, "[Left out: 2 more parts.]");
    }
}
