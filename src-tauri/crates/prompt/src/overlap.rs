//! How much of a text's end could be the beginning of a tag that the next part completes.

/// The length in bytes of the longest end of `text` that is a proper beginning of one of `tags`.
pub(crate) fn held_bytes<'t>(text: &str, tags: impl IntoIterator<Item = &'t str>) -> usize {
    let longest = |tag: &'t str| {
        let starts = tag.char_indices().rev().map(|(at, _)| at).filter(|&at| at > 0 && at <= text.len());
        starts.into_iter().find(|&at| tag.get(..at).is_some_and(|start| text.ends_with(start))).unwrap_or(0)
    };
    tags.into_iter().map(longest).max().unwrap_or(0)
}

/// Takes the first `bytes` bytes off `text`; all of it when that is not a border between characters.
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
        assert_eq!(held_bytes(text, tags.iter().copied()), wanted, "the end of {text:?} against {tags:?}");
    }

    #[test]
    fn ends_that_begin_a_tag() {
        check("a<th", &["<think>"], 3);
        check("a<think>", &["<think>"], 0);
        check("aab", &["aabaab", "b!"], 3);
        check("é", &["éa", "xé"], 2);
        check("", &["a"], 0);
        check("abc", &[""], 0);
    }

    #[test]
    fn the_front_comes_off() {
        let mut text = "aéb".to_owned();
        assert_eq!(take_front(&mut text, 1), "a", "one byte");
        assert_eq!(take_front(&mut text, 1), "éb", "half a character takes all");
        assert_eq!(text, "", "and leaves nothing");
    }
}
