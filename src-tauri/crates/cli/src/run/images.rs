//! Images in a prompt: paths of image files that exist are removed from the text and sent with it, as in `ollama run`.

use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Suffixes of image files, in lower case.
const SUFFIXES: [&str; 4] = [".jpeg", ".jpg", ".png", ".webp"];
/// Bytes of all images of a prompt. The request has them in base64 and is limited to 64 MiB.
const MAX_BYTES: u64 = 40 << 20;

/// A prompt without the paths of its images.
#[derive(Debug, PartialEq)]
pub(super) struct Prompt {
    pub(super) text: String,
    /// Contents in base64.
    pub(super) images: Vec<Value>,
    /// The paths, as they were written.
    pub(super) paths: Vec<String>,
}

/// Separates a prompt from the images that it names.
///
/// # Errors
/// A file cannot be read, or the images are too large.
pub(super) fn extract(prompt: &str) -> anyhow::Result<Prompt> {
    let mut extracted = Prompt { text: String::new(), images: Vec::new(), paths: Vec::new() };
    let (mut rest, mut bytes) = (prompt, 0);
    while let Some((start, end)) = find(rest) {
        let written = &rest[start..end];
        let path = unescaped(written);
        bytes += std::fs::metadata(&path).with_context(|| format!("cannot read the image {path}"))?.len();
        if bytes > MAX_BYTES {
            bail!("the images of the prompt have more than {MAX_BYTES} bytes; send smaller ones");
        }
        let contents = std::fs::read(&path).with_context(|| format!("cannot read the image {path}"))?;
        extracted.images.push(STANDARD.encode(contents).into());
        extracted.paths.push(written.to_owned());
        let (mut before, mut after) = (&rest[..start], &rest[end..]);
        // Quotes around a path belong to it.
        for quote in ['\'', '"'] {
            if let (Some(outer), Some(inner)) = (before.strip_suffix(quote), after.strip_prefix(quote)) {
                (before, after) = (outer, inner);
            }
        }
        extracted.text += before;
        rest = after;
    }
    extracted.text += rest;
    if !extracted.images.is_empty() {
        extracted.text = extracted.text.trim().to_owned();
    }
    Ok(extracted)
}

/// Returns the place of the first path of an image file that exists.
fn find(text: &str) -> Option<(usize, usize)> {
    let starts = text.char_indices().filter(|(at, _)| is_start(text, *at)).map(|(at, _)| at);
    starts.filter_map(|start| Some((start, start + length(&text[start..])?))).next()
}

/// Whether a path may begin here: it has a folder, and a blank or a quote before it.
fn is_start(text: &str, at: usize) -> bool {
    let is_separated =
        text[..at].chars().next_back().is_none_or(|letter| letter.is_whitespace() || "'\"".contains(letter));
    let rest = &text[at..];
    let has_drive = rest.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && (rest[1..].starts_with(":\\") || rest[1..].starts_with(":/"));
    is_separated && (has_drive || ["/", "./", "../", "\\", ".\\", "..\\"].iter().any(|start| rest.starts_with(start)))
}

/// Returns the length of the shortest path of an existing image file at the beginning of the text.
fn length(text: &str) -> Option<usize> {
    let line = text.lines().next().unwrap_or_default();
    let lower = line.to_ascii_lowercase();
    let mut ends: Vec<usize> = SUFFIXES
        .iter()
        .flat_map(|suffix| lower.match_indices(suffix).map(|(at, found)| at + found.len()))
        .filter(|end| !line[*end..].starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
        .collect();
    ends.sort_unstable();
    ends.into_iter().find(|end| Path::new(&unescaped(&line[..*end])).is_file())
}

/// Removes the backslashes with which shells and file managers escape blanks and brackets in a path.
fn unescaped(path: &str) -> String {
    let mut text = path.to_owned();
    for letter in " ()[]{}'\"&$!?*`".chars() {
        text = text.replace(&format!("\\{letter}"), &letter.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_existing_images_are_taken_out_of_the_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "pixels").unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (plain, spaced, upper) = (file("a.png"), file("my cat (1).jpeg"), file("B.WEBP"));
        let escaped = spaced.replace(' ', "\\ ").replace('(', "\\(").replace(')', "\\)");
        let check = |prompt: &str, text: &str, images: usize| {
            let found = extract(prompt).unwrap();
            assert_eq!((found.text.as_str(), found.images.len()), (text, images), "{prompt:?}");
            assert!(found.images.iter().all(|image| image == "cGl4ZWxz"), "base64 of the file");
        };
        check(&format!("Describe {plain}?"), "Describe ?", 1);
        check(&format!("{plain} {upper} compare"), "compare", 2);
        check(&format!("look: '{spaced}'"), "look:", 1);
        check(&format!("look: {spaced}"), "look:", 1);
        check(&format!("look: {escaped} now"), "look:  now", 1);
        check("no file: /absent/a.png", "no file: /absent/a.png", 0);
        let glued = format!("x{plain}");
        check(&glued, &glued, 0);
        let longer = format!("{plain}x");
        check(&longer, &longer, 0);
        check("a.png and b/c.png have no folder first", "a.png and b/c.png have no folder first", 0);
        check("é / ü.png ", "é / ü.png ", 0);
    }

    #[test]
    fn images_over_the_limit_are_refused_before_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.png");
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let error = extract(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("send smaller ones"), "{error}");
    }
}
