//! `cairn://...`: addresses that other programs and pages may hand to the app.
//!
//! Anybody can write such a link, so all that one does is open a screen: `cairn://models/downloads`, `cairn://chat/ID`. A model's
//! name goes into the search, `cairn://pull/qwen3:8b`, and its user decides.

use tauri::Url;

/// Screens that the page has.
const SCREENS: &[&str] = &["chat", "models", "hardware", "cache", "server", "settings"];
/// The longest link that is followed, in bytes.
const LONGEST: usize = 512;

/// Where in the page a link leads, as the part of its address after `#/`; `None` for what is no link of ours.
pub(crate) fn route(link: &str) -> Option<String> {
    let url = Url::parse(link).ok().filter(|url| link.len() <= LONGEST && url.scheme() == "cairn")?;
    let screen = url.host_str()?;
    // The part is percent-encoded by `Url`, and letters that could end a string or a tag are encoded in it.
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
    fn links_open_screens_and_nothing_else() {
        let check = |link: &str, expected: Option<&str>| assert_eq!(route(link).as_deref(), expected, "{link:?}");
        check("cairn://chat", Some("chat"));
        check("cairn://chat/", Some("chat"));
        check("cairn://chat/0f3a", Some("chat/0f3a"));
        check("cairn://models/downloads", Some("models/downloads"));
        check("cairn://pull/qwen3:8b", Some("models/discover/qwen3:8b"));
        check("cairn://pull/hf.co/user/repo:Q4_K_M", Some("models/discover/hf.co%2Fuser%2Frepo:Q4_K_M"));
        check("cairn://pull", None);
        check("cairn://quit", None);
        check("cairn:chat", None);
        check("https://chat", None);
        check("cairn://chat/';alert(1)//", None);
        check("cairn://chat/a?b#c", Some("chat/a"));
        check("cairn://chat/<b>", Some("chat/%3Cb%3E"));
        check(&format!("cairn://chat/{}", "a".repeat(LONGEST)), None);
        check("", None);
    }
}
