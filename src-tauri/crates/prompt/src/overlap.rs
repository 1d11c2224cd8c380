//! Finds the end of a text that may be the start of a tag.

/// Returns the length in bytes of the longest suffix of `text` that is a proper prefix of one of `tags`.
pub(crate) fn partial_match_bytes<'t>(text: &str, tags: impl IntoIterator<Item = &'t str>) -> usize {
    let longest = |tag: &'t str| {
        let starts = tag.char_indices().rev().map(|(at, _)| at).filter(|&at| at > 0 && at <= text.len());
        starts.into_iter().find(|&at| tag.get(..at).is_some_and(|start| text.ends_with(start))).unwrap_or(0)
    };
    tags.into_iter().map(longest).max().unwrap_or(0)
}

/// Removes and returns the first `bytes` bytes of `text`, or all of it if that is not a character boundary.
pub(crate) fn take_front(text: &mut String, bytes: usize) -> String {
    match text.split_at_checked(bytes) {
        Some((_, rest)) => {
            let rest = rest.to_owned();
            let mut front = std::mem::replace(text, rest);
            front.truncate(bytes);
            front
        }
        None => std::mem::take(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, tags: &[&str], wanted: usize) {
        assert_eq!(partial_match_bytes(text, tags.iter().copied()), wanted, "suffix of {text:?} for tags {tags:?}");
    }

    #[test]
    fn partial_match_bytes_counts_text_end_that_may_start_a_tag() {
        check("a<th", &["<think>"], 3);
        check("a<think>", &["<think>"], 0);
        check("aab", &["aabaab", "b!"], 3);
        check("é", &["éa", "xé"], 2);
        check("", &["a"], 0);
        check("abc", &[""], 0);
    }

    #[test]
    fn take_front_respects_character_boundaries() {
        let mut text = "aéb".to_owned();
        assert_eq!(take_front(&mut text, 1), "a", "one byte");
        assert_eq!(take_front(&mut text, 1), "éb", "an offset inside a character takes all text");
        assert_eq!(text, "", "no text is left");
    }
}
