//! Snowflake Arctic Embed 2: the normalisation table of the vocabulary is Base64, one character to an element.

use cairn_gguf::{Array, Metadata, Value};

use super::layout::{Layout, Marker};
use super::step::{Head, Step};
use crate::error::LoadError;

pub(super) const SNOWFLAKE: Layout = Layout {
    model: "Snowflake Arctic Embed 2",
    architectures: &["bert"],
    markers: &[Marker::Check(has_base64_table)],
    steps: &[Step::Run(decode_table)],
    tower: &[],
};

const TABLE: &str = "tokenizer.ggml.precompiled_charsmap";

fn has_base64_table(metadata: &Metadata) -> bool {
    metadata.str("tokenizer.ggml.model") == Ok(Some("t5"))
        && matches!(metadata.get(TABLE), Some(Value::Array(Array::String(_))))
}

fn decode_table(head: &mut Head<'_>) -> Result<(), LoadError> {
    let Some(texts) = head.metadata.strings(TABLE)? else { return Ok(()) };
    // RFC 4648, section 4: each character has six bits.
    let (mut bytes, mut value, mut bits) = (Vec::with_capacity(texts.len() * 3 / 4), 0u32, 0u32);
    for (at, text) in texts.iter().enumerate() {
        let sextet = match *text.as_bytes() {
            [letter @ b'A'..=b'Z'] => letter - b'A',
            [letter @ b'a'..=b'z'] => letter - b'a' + 26,
            [digit @ b'0'..=b'9'] => digit - b'0' + 52,
            [b'+'] => 62,
            [b'/'] => 63,
            [b'='] => break,
            _ => return Err(head.invalid(TABLE, format!("element {at} is not one character of Base64"))),
        };
        value = ((value << 6) | u32::from(sextet)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((value >> bits) as u8);
        }
    }
    head.set(TABLE, bytes);
    Ok(())
}
