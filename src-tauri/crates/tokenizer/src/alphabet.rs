//! The byte alphabet of byte-level BPE: each of the 256 bytes is written as one printable character, so that vocabularies and
//! merges are plain text. Printable bytes of Latin-1 stand for themselves, the other 68 take the characters from U+0100 on, in
//! order (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", and its published `encoder.py`).

/// Whether a byte is written as the character of the same number.
fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that each byte is written as.
pub(crate) fn letters() -> [char; 256] {
    let mut next = 0x100_u32;
    let mut letters = ['\0'; 256];
    for (letter, byte) in letters.iter_mut().zip(0_u8..=255) {
        *letter = if stands_for_itself(byte) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or('\0')
        };
    }
    letters
}

/// The byte that a character stands for, if it belongs to the alphabet.
pub(crate) fn byte_of(letter: char) -> Option<u8> {
    match u32::from(letter) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(|&byte| stands_for_itself(byte)),
        code @ 0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        // After the 33 bytes up to the blank come DEL to U+00A0, 34 of them, and the soft hyphen.
        code @ 0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

/// The bytes that a token's text stands for. A character outside the alphabet keeps its own UTF-8 form, so nothing is lost.
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
    fn every_byte_has_its_own_letter() {
        for (byte, letter) in (0_u8..=255).zip(letters()) {
            assert_eq!(byte_of(letter), Some(byte), "byte {byte:#x} is written as {letter:?}");
        }
        assert_eq!(letters()[usize::from(b' ')], 'Ġ', "the blank's letter is known from published vocabularies");
        assert_eq!(letters()[usize::from(b'\n')], 'Ċ', "so is the newline's");
        assert_eq!(byte_of('漢'), None, "a character outside the alphabet is no byte");
    }

    #[test]
    fn foreign_characters_keep_their_form() {
        let mut bytes = Vec::new();
        bytes_of("aĠ漢", &mut bytes);
        assert_eq!(bytes, "a 漢".as_bytes(), "letters become bytes and the rest stays");
    }
}
