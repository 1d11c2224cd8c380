//! What a part of a name is called as a folder or file.
//!
//! Ollama takes the part as it is, and so does this, except on Windows: there a colon begins a stream inside a file, dots at
//! the end fall off, and names such as `con` and `nul.x` are devices in every folder. Such a letter becomes `%` and its two
//! hex digits. No part of a name can have a `%`, so this can be undone, and no two parts become one folder.

use std::borrow::Cow;

/// Names that are devices on Windows, whatever follows them after a dot.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// The same with one digit after them.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// The folder of a part on this system.
pub(crate) fn folder(part: &str) -> Cow<'_, str> {
    if cfg!(windows) { encode(part) } else { part.into() }
}

/// The part whose folder is called so on this system; `None` when there is none.
pub(crate) fn part(folder: &str) -> Option<Cow<'_, str>> {
    if cfg!(windows) { decode(folder) } else { Some(folder.into()) }
}

fn encode(part: &str) -> Cow<'_, str> {
    let last = part.len().saturating_sub(1);
    let hides = |(at, letter): (usize, char)| match letter {
        ':' => true,
        '.' => at == last,
        _ => at == 0 && is_device(part),
    };
    if !part.char_indices().any(hides) {
        return part.into();
    }
    let encoded = part.char_indices().map(|(at, letter)| match hides((at, letter)) {
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
    // Anything else that reads the same would be a second folder of the same part.
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
    fn folders_that_windows_can_have() {
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
    fn every_part_has_one_folder() {
        for folder in ["con", "x.", "a:b", "%41bc", "%2e", "x%", "x%4", "x%zz", "a%2Eb", "x%3a", "%63on%"] {
            let part = decode(folder);
            assert!(part.is_none(), "{folder:?} was read as {part:?}");
        }
        for part in cairn_testkit::hostile::ODD_BUT_ALLOWED.iter().flat_map(|name| name.split('/')) {
            assert_eq!(decode(&encode(part)).as_deref(), Some(part), "{part:?} comes back");
        }
    }
}
