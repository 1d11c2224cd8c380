//! Folder and file names of the parts of a model name.
//!
//! As in Ollama, a part is its own folder name, except on Windows: a colon would begin a stream of a file, trailing dots are
//! dropped, and names such as `con` and `nul.x` are devices. There such a character is written as `%` and two hex digits. No part
//! can contain a `%`, so the encoding is reversible and two parts never get the same folder.

use std::borrow::Cow;

/// Device names on Windows, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// Device names that end in a digit.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Returns the folder name of a part on this system.
pub(crate) fn folder(part: &str) -> Cow<'_, str> {
    if cfg!(windows) { encode(part) } else { part.into() }
}

/// Returns the part of a folder name on this system, or `None` if the name is not the encoding of a part.
pub(crate) fn part(folder: &str) -> Option<Cow<'_, str>> {
    if cfg!(windows) { decode(folder) } else { Some(folder.into()) }
}

fn encode(part: &str) -> Cow<'_, str> {
    let last = part.len().saturating_sub(1);
    let is_escaped = |(at, letter): (usize, char)| match letter {
        ':' => true,
        '.' => at == last,
        _ => at == 0 && is_device(part),
    };
    if !part.char_indices().any(is_escaped) {
        return part.into();
    }
    let encoded = part.char_indices().map(|(at, letter)| match is_escaped((at, letter)) {
        true => format!("%{:02X}", u32::from(letter)),
        false => letter.to_string(),
    });
    encoded.collect::<String>().into()
}

fn decode(folder: &str) -> Option<Cow<'_, str>> {
    let (first, rest) = folder.split_once('%').map_or((folder, None), |(first, rest)| (first, Some(rest)));
    let mut part = Cow::from(first);
    for piece in rest.into_iter().flat_map(|rest| rest.split('%')) {
        let letter = u8::from_str_radix(piece.get(..2)?, 16).ok()?;
        part.to_mut().push(char::from(letter));
        part.to_mut().push_str(piece.get(2..)?);
    }
    // Only the canonical encoding is accepted: otherwise one part could have two folders.
    (encode(&part) == folder).then_some(part)
}

fn is_device(part: &str) -> bool {
    let stem = part.split(['.', ':']).next().unwrap_or(part).to_ascii_lowercase();
    let numbered = NUMBERED_DEVICES
        .iter()
        .any(|device| stem.strip_prefix(device).is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9'])));
    numbered || DEVICES.contains(&stem.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(part: &str, folder: &str) {
        assert_eq!(encode(part), folder, "{part:?} as a folder");
        assert_eq!(decode(folder).as_deref(), Some(part), "{folder:?} as a part");
    }

    #[test]
    fn folder_names_are_valid_on_windows() {
        check("llama3.2", "llama3.2");
        check("localhost:5000", "localhost%3A5000");
        check("x.", "x%2E");
        check("x..", "x.%2E");
        check("con", "%63on");
        check("NUL.gguf", "%4EUL.gguf");
        check("com1", "%63om1");
        check("LPT9.", "%4CPT9%2E");
        check("com10", "com10");
        check("console", "console");
        check("aux:1", "%61ux%3A1");
    }

    #[test]
    fn every_part_has_exactly_one_folder() {
        for folder in ["con", "x.", "a:b", "%41bc", "%2e", "x%", "x%4", "x%zz", "a%2Eb", "x%3a", "%63on%"] {
            let part = decode(folder);
            assert!(part.is_none(), "{folder:?} was decoded as {part:?}");
        }
        for part in cairn_testkit::hostile::UNUSUAL_VALID_NAMES.iter().flat_map(|name| name.split('/')) {
            assert_eq!(decode(&encode(part)).as_deref(), Some(part), "{part:?} is decoded again");
        }
    }
}
