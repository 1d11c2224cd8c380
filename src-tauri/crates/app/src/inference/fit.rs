//! Making a conversation fit into the context.
//!
//! First whole turns go, the oldest first: a question and all that was said before the next one, so that a tool's answer never stands
//! without its call. System messages stay, in their place before all else, so that what was computed of them is found again; the
//! last message stays too. Ollama drops single messages by the same rules, and its conversations may begin with an answer.
//!
//! If what is left is still too long, its tokens are cut: the beginning stays, and the middle goes.

use cairn_prompt::Message;

use super::error::Error;

/// In less context than this, a cut prompt has lost its question and its answer ends at once, mostly without any text.
const MIN_CUT_CONTEXT_TOKENS: usize = 16;

/// A conversation as the model reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
}

/// What is left of a conversation.
#[derive(Debug)]
pub(crate) struct Fitted {
    pub(crate) messages: Vec<Message>,
    pub(crate) rendered: Rendered,
    /// Turns that were left out.
    pub(crate) turns: usize,
    /// Messages that were left out.
    pub(crate) dropped: usize,
    /// Tokens that the whole had.
    pub(crate) all_tokens: usize,
}

/// As many of the last turns as fit; the last message is left even where it does not fit.
pub(crate) fn turns<E>(
    all: Vec<Message>,
    limit_tokens: usize,
    mut render: impl FnMut(&[Message]) -> Result<Rendered, E>,
) -> Result<Fitted, E> {
    let whole = render(&all)?;
    let all_tokens = whole.tokens.len();
    if all_tokens <= limit_tokens {
        return Ok(Fitted { messages: all, rendered: whole, turns: 0, dropped: 0, all_tokens });
    }
    match shorter(&all, limit_tokens, render)? {
        Some(fitted) => Ok(Fitted { all_tokens, ..fitted }),
        None => Ok(Fitted { messages: all, rendered: whole, turns: 0, dropped: 0, all_tokens }),
    }
}

/// The conversation without its oldest turns, one at least: as many go as must for it to fit. None where there is nothing that could
/// go. [`Fitted::all_tokens`] is not known here.
pub(crate) fn shorter<E>(
    all: &[Message],
    limit_tokens: usize,
    mut render: impl FnMut(&[Message]) -> Result<Rendered, E>,
) -> Result<Option<Fitted>, E> {
    let starts = starts(all);
    let Some(last) = starts.len().checked_sub(1) else { return Ok(None) };
    // Fewer messages are fewer tokens, so halving finds the first number that fits. Trying one after the other would render
    // a conversation of thousands of messages thousands of times.
    let (mut least, mut most, mut best) = (0, last, None);
    while best.is_none() || least < most {
        let middle = if least < most { least.midpoint(most) } else { most };
        let messages = from(all, starts[middle]);
        let rendered = render(&messages)?;
        if rendered.tokens.len() <= limit_tokens || middle == last {
            let dropped = all.len() - messages.len();
            best = Some(Fitted { messages, rendered, turns: middle + 1, dropped, all_tokens: 0 });
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    Ok(best)
}

/// Where a conversation may begin after its oldest turns are gone, each one turn later than the one before.
fn starts(all: &[Message]) -> Vec<usize> {
    let is_system = |message: &Message| message.role == "system";
    let Some(first) = all.iter().position(|message| !is_system(message)) else { return Vec::new() };
    let mut starts: Vec<usize> = (first + 1..all.len()).filter(|&at| all[at].role == "user").collect();
    // Of the last turn the last message alone may be left; a tool's answer, with the message that called the tool.
    let end = all.len() - 1;
    let end = if all[end].role == "tool" {
        all.iter().rposition(|message| message.role != "tool").unwrap_or(end)
    } else {
        end
    };
    if end > starts.last().copied().unwrap_or(first) && !is_system(&all[end]) {
        starts.push(end);
    }
    starts
}

/// The messages from this one on, and the system messages before it.
fn from(all: &[Message], start: usize) -> Vec<Message> {
    let (gone, rest) = all.split_at(start);
    gone.iter().filter(|message| message.role == "system").chain(rest).cloned().collect()
}

/// The prompt's tokens, cut to leave room for an answer, of which the first `keep_tokens` stay; negative: all that fit.
pub(crate) fn prompt(
    tokens: Vec<u32>,
    context_tokens: usize,
    keep_tokens: i64,
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
    let keep = usize::try_from(keep_tokens).unwrap_or(tokens.len()).min(longest);
    let length = context_tokens - ((context_tokens - keep) / 2).max(1);
    let tail = length.saturating_sub(keep);
    Ok([&tokens[..keep], &tokens[tokens.len() - tail..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are written `s:` (system), `u:` (user), `a:` (assistant) or `t:` (tool); every letter of a text counts as one token.
    fn check(all: &[&str], limit: usize, turns: usize, expected: &[&str]) {
        let role = |letter: &str| match letter {
            "s" => "system",
            "u" => "user",
            "a" => "assistant",
            _ => "tool",
        };
        let read = |text: &&str| text.split_once(':').map(|(r, content)| Message::new(role(r), content)).unwrap();
        let all: Vec<Message> = all.iter().map(read).collect();
        let expected: Vec<Message> = expected.iter().map(read).collect();
        let fitted = super::turns(all.clone(), limit, |kept| Ok::<_, ()>(rendered(kept))).unwrap();
        assert_eq!(fitted.messages, expected, "kept at {limit}");
        assert_eq!(fitted.rendered, rendered(&expected), "what was kept is what is read");
        assert_eq!((fitted.turns, fitted.dropped), (turns, all.len() - expected.len()), "dropped at {limit}");
        assert_eq!(fitted.all_tokens, rendered(&all).tokens.len(), "tokens of the whole");
    }

    fn rendered(kept: &[Message]) -> Rendered {
        let text: String = kept.iter().map(|message| message.content.as_str()).collect();
        Rendered { tokens: text.bytes().map(u32::from).collect(), text }
    }

    #[test]
    fn the_oldest_turns_go_first_and_go_whole() {
        let all = ["s:rules", "u:aaaa", "a:bbb", "u:cc", "a:dd", "u:e"];
        check(&all, 17, 0, &all);
        check(&all, 16, 1, &["s:rules", "u:cc", "a:dd", "u:e"]);
        check(&all, 10, 1, &["s:rules", "u:cc", "a:dd", "u:e"]);
        check(&all, 9, 2, &["s:rules", "u:e"]);
        check(&all, 0, 2, &["s:rules", "u:e"]);
        check(&["u:aaaa"], 0, 0, &["u:aaaa"]);
        check(&["s:aaaa", "u:b"], 0, 0, &["s:aaaa", "u:b"]);
        check(&[], 0, 0, &[]);
    }

    #[test]
    fn what_is_no_question_goes_with_the_turn_that_it_is_in() {
        check(&["a:hello", "u:bb", "a:cc", "u:d"], 6, 1, &["u:bb", "a:cc", "u:d"]);
        check(&["u:aaaa", "s:later", "a:bb", "u:c"], 6, 1, &["s:later", "u:c"]);
        check(&["u:aaaa", "a:call", "t:12", "a:bb", "u:c"], 9, 1, &["u:c"]);
        // Nothing else is left to drop, and the answer of a tool stays with its call.
        check(&["u:aa", "a:bb", "u:cccc", "a:call", "t:12", "t:34"], 8, 2, &["a:call", "t:12", "t:34"]);
        check(&["u:aa", "a:bb", "u:cccc", "a:so"], 3, 2, &["a:so"]);
    }

    #[test]
    fn a_long_conversation_is_counted_a_few_times_only() {
        let all = vec![Message::new("user", "aaaa"); 10_000];
        let mut counted = 0;
        let count = |kept: &[Message]| {
            counted += 1;
            Ok::<_, ()>(rendered(kept))
        };
        let fitted = super::turns(all, 400, count).unwrap();
        assert_eq!((fitted.messages.len(), fitted.dropped), (100, 9_900), "as many as fit");
        assert!(counted < 20, "each count renders everything, and there were {counted}");
    }

    fn check_prompt(tokens: u32, context: usize, keep: i64, expected: &[u32]) {
        let cut = prompt((0..tokens).collect(), context, keep, true).expect("it may be cut");
        assert_eq!(cut, expected, "{tokens} tokens in {context}, keeping {keep}");
        assert!(cut.len() < context, "there is room for an answer");
    }

    #[test]
    fn the_middle_of_a_prompt_goes() {
        check_prompt(7, 8, 2, &[0, 1, 2, 3, 4, 5, 6]);
        check_prompt(40, 16, 2, &[0, 1, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, 3, &[0, 1, 2, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, -1, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 100, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 0, &(32..40).collect::<Vec<_>>());
    }

    #[test]
    fn a_prompt_is_not_cut_to_a_few_tokens() {
        for context in 4..16 {
            let error = prompt((0..20).collect(), context, 5, true).expect_err("little would be left of it");
            let text = format!(
                "the prompt has 20 tokens, and a context of {context} is too small to answer even a part of it; raise num_ctx \
                 (16 at least)"
            );
            assert_eq!(error.to_string(), text, "what is wrong and what to do");
        }
    }

    #[test]
    fn a_prompt_that_may_not_be_cut_is_refused() {
        let error = prompt((0..20).collect(), 8, 4, false).expect_err("it does not fit").to_string();
        assert!(error.starts_with("the prompt is longer than the context length currently available"), "{error}");
    }
}
