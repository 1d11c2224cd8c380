//! The byte alphabet of byte-level BPE: each of the 256 bytes is written as one printable character, so that
//! vocabularies and merges are plain text. Printable bytes of Latin-1 map to themselves, the other 68 map to the
//! characters from U+0100 on, in order (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", and
//! its published `encoder.py`).

/// Returns whether a byte maps to the character of the same number.
fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Returns the character of each byte.
pub(crate) fn letters() -> [char; 256] {
    let mut next = 0x100_u32;
    let mut letters = ['\0'; 256];
    for (letter, byte) in letters.iter_mut().zip(0_u8..=255) {
        *letter = if is_printable(byte) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or('\0')
        };
    }
    letters
}

/// Returns the byte of a character, if it belongs to the alphabet.
pub(crate) fn byte_of(letter: char) -> Option<u8> {
    match u32::from(letter) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(|&byte| is_printable(byte)),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        // The 33 bytes up to the space are followed by DEL to U+00A0 (34 bytes) and the soft hyphen.
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// Appends the bytes of a token's text. A character outside the alphabet keeps its UTF-8 bytes.
pub(crate) fn bytes_of(text: &str, into: &mut Vec<u8>) {
    for letter in text.chars() {
        match byte_of(letter) {
            Some(byte) => into.push(byte),
            None => into.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_maps_to_a_unique_character() {
        for (byte, letter) in (0_u8..=255).zip(letters()) {
            assert_eq!(byte_of(letter), Some(byte), "byte {byte:#x} is written as {letter:?}");
        }
        assert_eq!(letters()[usize::from(b' ')], 'Ġ', "the space, as in published vocabularies");
        assert_eq!(letters()[usize::from(b'\n')], 'Ċ', "the newline");
        assert_eq!(byte_of('漢'), None, "a character outside the alphabet has no byte");
    }

    #[test]
    fn characters_outside_alphabet_keep_utf8() {
        let mut bytes = Vec::new();
        bytes_of("aĠ漢", &mut bytes);
        assert_eq!(bytes, "a 漢".as_bytes(), "only characters of the alphabet are mapped");
    }
}
