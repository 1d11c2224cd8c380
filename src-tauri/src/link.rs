//! `cairn://...`: links from other programs and pages.
//!
//! Links are untrusted, so a link only opens a screen: `cairn://models/downloads`, `cairn://chat/ID`. A link with a
//! model name, `cairn://pull/qwen3:8b`, opens the search; the user decides whether to pull.

use tauri::Url;

/// Screens of the page.
const SCREENS: &[&str] = &["chat", "models", "documents", "hardware", "cache", "server", "settings"];
/// Longest accepted link, in bytes.
const MAX_LINK_BYTES: usize = 512;

/// Returns the route of a link in the page, the part of the address after `#/`; `None` for an invalid link.
pub(crate) fn route(link: &str) -> Option<String> {
    let url = Url::parse(link).ok().filter(|url| link.len() <= MAX_LINK_BYTES && url.scheme() == "cairn")?;
    let screen = url.host_str()?;
    // `Url` percent-encodes the path, so characters that could end a string or a tag are encoded.
    let rest = url.path().trim_matches('/');
    let plain = |rest: &str| rest.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._~:%/@".contains(letter));
    if !plain(rest) {
        return None;
    }
    match screen {
        "pull" if !rest.is_empty() => Some(format!("models/discover/{}", rest.replace('/', "%2F"))),
        screen if !SCREENS.contains(&screen) => None,
        screen if rest.is_empty() => Some(screen.to_owned()),
        screen => Some(format!("{screen}/{rest}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_opens_only_known_screens() {
        let check = |link: &str, expected: Option<&str>| assert_eq!(route(link).as_deref(), expected, "{link:?}");
        check("cairn://chat", Some("chat"));
        check("cairn://chat/", Some("chat"));
        check("cairn://chat/0f3a", Some("chat/0f3a"));
        check("cairn://models/downloads", Some("models/downloads"));
        check("cairn://documents/0f3a", Some("documents/0f3a"));
        check("cairn://pull/qwen3:8b", Some("models/discover/qwen3:8b"));
        check("cairn://pull/hf.co/user/repo:Q4_K_M", Some("models/discover/hf.co%2Fuser%2Frepo:Q4_K_M"));
        check("cairn://pull", None);
        check("cairn://quit", None);
        check("cairn:chat", None);
        check("https://chat", None);
        check("cairn://chat/';alert(1)//", None);
        check("cairn://chat/a?b#c", Some("chat/a"));
        check("cairn://chat/<b>", Some("chat/%3Cb%3E"));
        check(&format!("cairn://chat/{}", "a".repeat(MAX_LINK_BYTES)), None);
        check("", None);
    }
}
