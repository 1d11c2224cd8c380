//! A value that is a text or a list. An untagged enum of serde would hide which element of the list is wrong.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A type that is made of a text or of a list.
pub(crate) trait TextOrList: Sized {
    /// An element of the list.
    type Element;
    /// What a value must be, for the error of another kind of value.
    const EXPECTED: &str;
    fn from_text(text: String) -> Self;
    fn from_list(list: Vec<Self::Element>) -> Self;
}

/// Reads a text or a list. The error of an element is its own.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: TextOrList<Element: Deserialize<'de>>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Reader(PhantomData))
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: TextOrList<Element: Deserialize<'de>>> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from_text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<T, E> {
        Ok(T::from_text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(T::from_list)
    }
}

/// Implements [`TextOrList`] and `Deserialize` for an enum with a variant for each.
macro_rules! text_or_list {
    ($type:ty, $text:path, $list:path, $element:ty, $expected:literal) => {
        impl $crate::text_or_list::TextOrList for $type {
            type Element = $element;
            const EXPECTED: &str = $expected;
            fn from_text(text: String) -> Self {
                $text(text)
            }
            fn from_list(list: Vec<$element>) -> Self {
                $list(list)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_or_list::deserialize(deserializer)
            }
        }
    };
}
pub(crate) use text_or_list;

#[cfg(test)]
mod tests {
    use crate::anthropic::Blocks;
    use crate::openai::{Content, InputItems};

    fn error<'a, T: serde::Deserialize<'a>>(json: &'a str) -> String {
        serde_json::from_str::<T>(json).err().expect("invalid").to_string()
    }

    #[test]
    fn errors_of_elements_are_shown() {
        let text = error::<Blocks>(r#"[{"type": "text", "text": "a"}, {"type": "document"}]"#);
        assert!(text.starts_with("unknown variant `document`, expected one of `text`, `image`"), "{text}");
        let nested = r#"[{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document"}]}]"#;
        assert!(error::<Blocks>(nested).starts_with("unknown variant `document`"), "in the result of a tool");
        assert!(error::<Content>(r#"["a"]"#).contains("expected a part of a message"), "parts are objects");
        assert!(error::<InputItems>("[1]").contains("expected an item of the input"), "items are objects");
    }

    #[test]
    fn other_values_are_refused() {
        for json in ["1", "{}", "true"] {
            assert!(error::<Blocks>(json).contains("expected a text or a list of content blocks"), "{json}");
            assert!(error::<Content>(json).contains("expected the content of a message"), "{json}");
            assert!(error::<InputItems>(json).contains("expected input, which is a text or a list"), "{json}");
        }
    }
}
