//! Names that users give to API keys and remotes.

/// Maximum length of a name.
pub(crate) const MAX_NAME_BYTES: usize = 64;

/// Whether a text is a valid name: 1 to 64 ASCII letters, digits, `.`, `-` and `_`, beginning with a letter or digit. So no name is
/// a path such as `..` or looks like a flag.
pub(crate) fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let begins = text.starts_with(|char: char| char.is_ascii_alphanumeric());
    begins && text.len() <= MAX_NAME_BYTES && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_have_few_characters() {
        assert!(is_name("a") && is_name("My-gpu_2.lan") && is_name(&"a".repeat(64)));
        for text in ["", "a b", "\u{e9}", "a/b", "..", ".a", "-a", "_", &"a".repeat(65)] {
            assert!(!is_name(text), "{text:?}");
        }
    }
}
