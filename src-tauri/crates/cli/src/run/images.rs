//! Images in a prompt: paths of image files that exist are removed from the text and sent with it, as in `ollama run`.
//! Only text of the command line or of a terminal is searched, and only for a model with vision.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Suffixes of image files, in lower case.
const SUFFIXES: [&str; 4] = [".jpeg", ".jpg", ".png", ".webp"];
/// Bytes of all images of a prompt. The request has them in base64 and is limited to 64 MiB.
const MAX_BYTES: u64 = 40 << 20;
/// Bytes of a path with its escapes.
const MAX_PATH_BYTES: usize = 1024;
/// Suffixes of image files, from the start of a path on, at which the path may end.
const MAX_ENDS: usize = 4;
/// Characters that a backslash escapes.
const ESCAPED: &str = " ()[]{}'\"&$!?*`";

/// A prompt without the paths of its images.
#[derive(Debug, PartialEq)]
pub(super) struct PromptWithImages {
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
pub(super) fn extract(prompt: &str) -> anyhow::Result<PromptWithImages> {
    let mut extracted = PromptWithImages { text: String::new(), images: Vec::new(), paths: Vec::new() };
    let (mut copied, mut bytes) = (0, 0);
    for Range { start, end } in places(prompt, |path| Path::new(path).is_file()) {
        let written = &prompt[start..end];
        let path = unescaped(written);
        bytes += std::fs::metadata(&*path).with_context(|| format!("cannot read the image {path}"))?.len();
        if bytes > MAX_BYTES {
            bail!("the images of the prompt have more than {MAX_BYTES} bytes; send smaller ones");
        }
        let contents = std::fs::read(&*path).with_context(|| format!("cannot read the image {path}"))?;
        extracted.images.push(STANDARD.encode(contents).into());
        extracted.paths.push(written.to_owned());
        let (mut before, mut after) = (&prompt[copied..start], &prompt[end..]);
        // Quotes around a path belong to it.
        for quote in ['\'', '"'] {
            if let (Some(outer), Some(inner)) = (before.strip_suffix(quote), after.strip_prefix(quote)) {
                (before, after) = (outer, inner);
            }
        }
        extracted.text += before;
        copied = prompt.len() - after.len();
    }
    extracted.text += &prompt[copied..];
    if !extracted.images.is_empty() {
        extracted.text = extracted.text.trim().to_owned();
    }
    Ok(extracted)
}

/// Returns the paths of existing image files in a prompt, as they are written.
pub(super) fn paths(prompt: &str) -> Vec<&str> {
    places(prompt, |path| Path::new(path).is_file()).into_iter().map(|place| &prompt[place]).collect()
}

/// Returns the places of the paths of existing image files, in order. `is_file` gets paths without escapes.
///
/// The time is linear in the length of the prompt: a path is on one line, has at most [`MAX_PATH_BYTES`], and at most
/// [`MAX_ENDS`] of its possible ends are looked up.
fn places(prompt: &str, mut is_file: impl FnMut(&str) -> bool) -> Vec<Range<usize>> {
    let ends = ends(prompt);
    let (mut first_end, mut found, mut free) = (0, Vec::new(), 0);
    for (start, _) in prompt.char_indices().filter(|(at, _)| is_start(prompt, *at)) {
        if start < free {
            continue;
        }
        first_end += ends[first_end..].iter().take_while(|end| **end <= start).count();
        let mut near = ends[first_end..].iter().copied().take(MAX_ENDS);
        let path = near.find_map(|end| {
            let written = prompt.get(start..end).filter(|path| path.len() <= MAX_PATH_BYTES && !path.contains('\n'))?;
            is_file(&unescaped(written)).then_some(start..end)
        });
        if let Some(path) = path {
            free = path.end;
            found.push(path);
        }
    }
    found
}

/// Returns the places behind the suffixes of image files.
fn ends(prompt: &str) -> Vec<usize> {
    let end = |dot: usize| {
        let rest = &prompt.as_bytes()[dot..];
        let has_suffix =
            |suffix: &&str| rest.get(..suffix.len()).is_some_and(|start| start.eq_ignore_ascii_case(suffix.as_bytes()));
        SUFFIXES.iter().find(|suffix| has_suffix(suffix)).map(|suffix| dot + suffix.len())
    };
    let is_in_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    prompt
        .match_indices('.')
        .filter_map(|(dot, _)| end(dot))
        .filter(|end| !prompt[*end..].starts_with(is_in_word))
        .collect()
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

/// Removes the backslashes with which shells and file managers escape blanks and brackets in a path.
fn unescaped(path: &str) -> Cow<'_, str> {
    if !path.contains('\\') {
        return path.into();
    }
    let mut text = String::with_capacity(path.len());
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' || !letters.peek().is_some_and(|next| ESCAPED.contains(*next)) {
            text.push(letter);
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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

    #[test]
    fn long_prompt_needs_few_lookups_and_little_time() {
        let check = |prompt: &str, expected: usize| {
            let (started, mut lookups) = (Instant::now(), 0);
            let found = places(prompt, |path| {
                lookups += 1;
                path == "/a.png"
            });
            assert_eq!(found.len(), expected, "{prompt:.20}");
            assert!(lookups <= MAX_ENDS * prompt.len().div_ceil(6), "{lookups} lookups for {prompt:.20}");
            assert!(started.elapsed() < Duration::from_secs(5), "{:?} for {prompt:.20}", started.elapsed());
        };
        check(&" /".repeat(100_000), 0);
        check(&"\\ /".repeat(100_000), 0);
        check(&" /a.png".repeat(3000), 3000);
        check(&" /b.png".repeat(30_000), 0);
        check(&format!("{}.png", " /".repeat(100_000)), 0);
    }

    #[test]
    fn path_ends_on_its_line_and_within_the_limit() {
        let check = |prompt: &str, expected: &[&str]| {
            let found = places(prompt, |_| true);
            assert_eq!(found.into_iter().map(|place| &prompt[place]).collect::<Vec<_>>(), expected, "{prompt:.20}");
        };
        check("/a\n.png", &[]);
        check("/a\n/b.png", &["/b.png"]);
        check(
            &format!("/{}.png", "x".repeat(MAX_PATH_BYTES - 5)),
            &[&format!("/{}.png", "x".repeat(MAX_PATH_BYTES - 5))],
        );
        check(&format!("/{}.png", "x".repeat(MAX_PATH_BYTES - 4)), &[]);
        check("/a.png /b.jpeg", &["/a.png", "/b.jpeg"]);
    }
}
