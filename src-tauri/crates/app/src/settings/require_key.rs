//! Which requests of other machines need an API key.

use super::tiers::switch;

/// Which requests of other machines need an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequireKey {
    /// None, as in Ollama.
    Off,
    /// Those that change, fetch or send models. Generating and listing models need no key.
    Changes,
    /// Also those that generate or list models.
    All,
}

impl RequireKey {
    /// Parses a name, or a word for yes or no.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "changes" => Some(Self::Changes),
            "all" => Some(Self::All),
            word => switch(word).map(|on| if on { Self::Changes } else { Self::Off }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_for_yes_and_no_are_parsed() {
        let check = |text: &str, expected| assert_eq!(RequireKey::parse(text), expected, "{text:?}");
        check("off", Some(RequireKey::Off));
        check("false", Some(RequireKey::Off));
        check("Changes", Some(RequireKey::Changes));
        check("true", Some(RequireKey::Changes));
        check("all", Some(RequireKey::All));
        check("al", None);
    }
}
