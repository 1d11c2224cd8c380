//! Making a conversation fit into the context, by the rules that Ollama's clients know.
//!
//! First whole messages go, the oldest first, never a system message and never the last one. If what is left is still too
//! long, its tokens are cut: the beginning stays, and the middle goes. Both are said in the log, in numbers only.

use cairn_prompt::Message;

use crate::Error;

/// In less context than this, a cut prompt has lost its question and its answer ends at once, mostly without any text.
const MIN_CUT_CONTEXT_TOKENS: usize = 16;

/// The messages that fit, and how many were dropped. `count` tells the tokens of a rendered conversation.
pub(crate) fn messages<E>(
    all: &[Message],
    limit_tokens: usize,
    mut count: impl FnMut(&[Message]) -> Result<usize, E>,
) -> Result<(Vec<Message>, usize), E> {
    let without = |oldest: usize| -> Vec<Message> {
        let (gone, rest) = all.split_at(oldest);
        gone.iter().filter(|message| message.role == "system").chain(rest).cloned().collect()
    };
    let last = all.len().saturating_sub(1);
    if last == 0 || count(all)? <= limit_tokens {
        return Ok((all.to_vec(), 0));
    }
    // Fewer messages are fewer tokens, so halving finds the first number that fits. Trying one after the other would render
    // a conversation of thousands of messages thousands of times.
    let (mut too_few, mut enough) = (0, last);
    while enough - too_few > 1 {
        let middle = too_few.midpoint(enough);
        if count(&without(middle))? <= limit_tokens { enough = middle } else { too_few = middle }
    }
    let kept = without(enough);
    let dropped = all.len() - kept.len();
    Ok((kept, dropped))
}

/// The prompt's tokens, cut to leave room for an answer.
pub(crate) fn prompt(
    tokens: Vec<u32>,
    context_tokens: usize,
    keep_tokens: i64,
    starts_with_bos: bool,
    may_cut: bool,
) -> Result<Vec<u32>, Error> {
    let longest = context_tokens.saturating_sub(1);
    if tokens.len() <= longest {
        return Ok(tokens);
    }
    if !may_cut {
        return Err(Error::TooLong { prompt_tokens: tokens.len(), context_tokens: longest });
    }
    if context_tokens < MIN_CUT_CONTEXT_TOKENS {
        return Err(Error::TinyContext {
            prompt_tokens: tokens.len(),
            context_tokens,
            least_tokens: MIN_CUT_CONTEXT_TOKENS,
        });
    }
    let keep =
        usize::try_from(keep_tokens).map_or(tokens.len(), |keep| keep.saturating_add(usize::from(starts_with_bos)));
    let keep = keep.min(longest);
    let length = context_tokens - ((context_tokens - keep) / 2).max(1);
    let tail = length.saturating_sub(keep);
    tracing::warn!(
        tokens = tokens.len(),
        context_tokens,
        kept = keep,
        end = tail,
        "the prompt is too long and was cut"
    );
    Ok([&tokens[..keep], &tokens[tokens.len() - tail..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are written `s:` (system) or `u:` (user); every letter of a text counts as one token.
    fn check_messages(all: &[&str], limit: usize, expected: &[&str]) {
        let role = |letter: &str| if letter == "s" { "system" } else { "user" };
        let read = |text: &&str| text.split_once(':').map(|(r, content)| Message::new(role(r), content)).unwrap();
        let all: Vec<Message> = all.iter().map(read).collect();
        let expected: Vec<Message> = expected.iter().map(read).collect();
        let count = |kept: &[Message]| Ok::<_, ()>(kept.iter().map(|message| message.content.len()).sum());
        let (kept, dropped) = messages(&all, limit, count).unwrap();
        assert_eq!(kept, expected, "kept at {limit}");
        assert_eq!(dropped, all.len() - expected.len(), "dropped at {limit}");
    }

    #[test]
    fn the_oldest_messages_go_first() {
        let all = ["s:rules", "u:aaaa", "u:bbb", "u:cc"];
        check_messages(&all, 14, &all);
        check_messages(&all, 13, &["s:rules", "u:bbb", "u:cc"]);
        check_messages(&all, 9, &["s:rules", "u:cc"]);
        check_messages(&all, 0, &["s:rules", "u:cc"]);
        check_messages(&["u:aaaa"], 0, &["u:aaaa"]);
        check_messages(&[], 0, &[]);
    }

    #[test]
    fn a_long_conversation_is_counted_a_few_times_only() {
        let all = vec![Message::new("user", "aaaa"); 10_000];
        let mut counted = 0;
        let count = |kept: &[Message]| {
            counted += 1;
            Ok::<_, ()>(kept.len() * 4)
        };
        let (kept, dropped) = messages(&all, 400, count).unwrap();
        assert_eq!((kept.len(), dropped), (100, 9_900), "as many as fit");
        assert!(counted < 20, "each count renders everything, and there were {counted}");
    }

    fn check_prompt(tokens: u32, context: usize, keep: i64, bos: bool, expected: &[u32]) {
        let cut = prompt((0..tokens).collect(), context, keep, bos, true).expect("it may be cut");
        assert_eq!(cut, expected, "{tokens} tokens in {context}, keeping {keep}");
        assert!(cut.len() < context, "there is room for an answer");
    }

    #[test]
    fn the_middle_of_a_prompt_goes() {
        check_prompt(7, 8, 2, false, &[0, 1, 2, 3, 4, 5, 6]);
        check_prompt(40, 16, 2, false, &[0, 1, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, 2, true, &[0, 1, 2, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, -1, false, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 100, false, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 0, false, &(32..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_prompt_is_not_cut_to_a_few_tokens() {
        for context in 4..16 {
            let error = prompt((0..20).collect(), context, 4, true, true).expect_err("little would be left of it");
            let text = format!(
                "the prompt has 20 tokens, and a context of {context} is too small to answer even a part of it; raise num_ctx \
                 (16 at least)"
            );
            assert_eq!(error.to_string(), text, "what is wrong and what to do");
        }
    }

    #[test]
    fn a_prompt_that_may_not_be_cut_is_refused() {
        let error = prompt((0..20).collect(), 8, 4, false, false).expect_err("it does not fit").to_string();
        assert!(error.starts_with("the prompt is longer than the context length currently available"), "{error}");
    }
}
