//! Fits a conversation into the context.
//!
//! First, whole turns are dropped, oldest first. A turn is a question and all messages before the next question, so a
//! tool's result is never separated from its call. System messages and the last message stay. System messages keep
//! their place at the start, so that their rows are found in the cache. Ollama drops single messages by the same
//! rules, so its conversations may begin with an answer.
//!
//! If the rest is still too long, its tokens are cut: the start stays, and tokens from the middle are dropped.

use cairn_prompt::Message;

use super::error::Error;

/// Smallest context for a cut prompt. Below it the question is lost, and the answer ends at once, mostly without text.
const MIN_CUT_CONTEXT_TOKENS: usize = 16;

/// A rendered conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
}

/// A conversation that fits.
#[derive(Debug)]
pub(crate) struct Fitted {
    pub(crate) messages: Vec<Message>,
    pub(crate) rendered: Rendered,
    /// Number of dropped turns.
    pub(crate) turns: usize,
    /// Number of dropped messages.
    pub(crate) dropped: usize,
    /// Tokens of the whole conversation.
    pub(crate) all_tokens: usize,
}

/// Keeps as many of the last turns as fit. The last message is kept even if it does not fit. A conversation that exceeds a
/// limit of its template does not fit either; `is_too_large` recognises that error.
pub(crate) fn turns<E>(
    all: Vec<Message>,
    limit_tokens: usize,
    is_too_large: fn(&E) -> bool,
    mut render: impl FnMut(&[Message]) -> Result<Rendered, E>,
) -> Result<Fitted, E> {
    let complete = |messages, rendered: Rendered| {
        let all_tokens = rendered.tokens.len();
        Fitted { messages, rendered, turns: 0, dropped: 0, all_tokens }
    };
    let whole = render(&all);
    if whole.as_ref().is_ok_and(|whole| whole.tokens.len() <= limit_tokens) || limit_tokens == usize::MAX {
        return whole.map(|whole| complete(all, whole));
    }
    let whole = match whole {
        Err(error) if !is_too_large(&error) => return Err(error),
        whole => whole,
    };
    match shorter(&all, limit_tokens, is_too_large, render)? {
        Some(fitted) => {
            // The tokens of a conversation that cannot be rendered are not counted.
            let all_tokens = whole.map_or(fitted.rendered.tokens.len(), |whole| whole.tokens.len());
            Ok(Fitted { all_tokens, ..fitted })
        }
        None => whole.map(|whole| complete(all, whole)),
    }
}

/// Drops the oldest turns: at least one, and as many as needed. Returns `None` if no turn can be dropped. Does not set
/// [`Fitted::all_tokens`].
pub(crate) fn shorter<E>(
    all: &[Message],
    limit_tokens: usize,
    is_too_large: fn(&E) -> bool,
    mut render: impl FnMut(&[Message]) -> Result<Rendered, E>,
) -> Result<Option<Fitted>, E> {
    let starts = starts(all);
    let Some(last) = starts.len().checked_sub(1) else { return Ok(None) };
    // Binary search for the smallest number of turns: fewer messages have fewer tokens. A linear search would render a
    // conversation of thousands of messages thousands of times.
    let (mut least, mut most, mut best) = (0, last, None);
    while best.is_none() || least < most {
        let middle = if least < most { least.midpoint(most) } else { most };
        let messages = from(all, starts[middle]);
        match render(&messages) {
            Ok(rendered) if rendered.tokens.len() <= limit_tokens || middle == last => {
                let dropped = all.len() - messages.len();
                best = Some(Fitted { messages, rendered, turns: middle + 1, dropped, all_tokens: 0 });
                most = middle;
            }
            Err(error) if !is_too_large(&error) || middle == last => return Err(error),
            _ => least = middle + 1,
        }
    }
    Ok(best)
}

/// Returns the possible first messages after the oldest turns are dropped, each one turn later than the one before.
fn starts(all: &[Message]) -> Vec<usize> {
    let is_system = |message: &Message| message.role == "system";
    let Some(first) = all.iter().position(|message| !is_system(message)) else { return Vec::new() };
    let mut starts: Vec<usize> = (first + 1..all.len()).filter(|&at| all[at].role == "user").collect();
    // The last message alone may stay of the last turn; a tool's result, together with its call.
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

/// Returns the messages from `start`, and the system messages before it.
fn from(all: &[Message], start: usize) -> Vec<Message> {
    let (dropped, rest) = all.split_at(start);
    dropped.iter().filter(|message| message.role == "system").chain(rest).cloned().collect()
}

/// Cuts a prompt to leave room for an answer. The first `keep_tokens` stay; negative: as many as fit.
pub(crate) fn prompt(
    tokens: Vec<u32>,
    context_tokens: usize,
    keep_tokens: i64,
    may_cut: bool,
) -> Result<Vec<u32>, Error> {
    let max_tokens = context_tokens.saturating_sub(1);
    if tokens.len() <= max_tokens {
        return Ok(tokens);
    }
    if !may_cut {
        return Err(Error::TooLong { prompt_tokens: tokens.len(), context_tokens: max_tokens });
    }
    if context_tokens < MIN_CUT_CONTEXT_TOKENS {
        return Err(Error::TinyContext {
            prompt_tokens: tokens.len(),
            context_tokens,
            least_tokens: MIN_CUT_CONTEXT_TOKENS,
        });
    }
    let keep = usize::try_from(keep_tokens).unwrap_or(tokens.len()).min(max_tokens);
    let length = context_tokens - ((context_tokens - keep) / 2).max(1);
    let tail = length.saturating_sub(keep);
    Ok([&tokens[..keep], &tokens[tokens.len() - tail..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages are written `s:` (system), `u:` (user), `a:` (assistant) or `t:` (tool). Every character counts as one
    /// token.
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
        let fitted = super::turns(all.clone(), limit, |()| false, |kept| Ok::<_, ()>(rendered(kept))).unwrap();
        assert_eq!(fitted.messages, expected, "kept at {limit}");
        assert_eq!(fitted.rendered, rendered(&expected), "the kept messages are rendered");
        assert_eq!((fitted.turns, fitted.dropped), (turns, all.len() - expected.len()), "dropped at {limit}");
        assert_eq!(fitted.all_tokens, rendered(&all).tokens.len(), "tokens of the whole");
    }

    fn rendered(kept: &[Message]) -> Rendered {
        let text: String = kept.iter().map(|message| message.content.as_str()).collect();
        Rendered { tokens: text.bytes().map(u32::from).collect(), text }
    }

    #[test]
    fn fit_drops_the_oldest_whole_turns_first() {
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
    fn fit_drops_answers_and_tool_results_with_their_turn() {
        check(&["a:hello", "u:bb", "a:cc", "u:d"], 6, 1, &["u:bb", "a:cc", "u:d"]);
        check(&["u:aaaa", "s:later", "a:bb", "u:c"], 6, 1, &["s:later", "u:c"]);
        check(&["u:aaaa", "a:call", "t:12", "a:bb", "u:c"], 9, 1, &["u:c"]);
        // No other turn can be dropped, and a tool's result stays with its call.
        check(&["u:aa", "a:bb", "u:cccc", "a:call", "t:12", "t:34"], 8, 2, &["a:call", "t:12", "t:34"]);
        check(&["u:aa", "a:bb", "u:cccc", "a:so"], 3, 2, &["a:so"]);
    }

    #[test]
    fn fit_renders_a_long_conversation_few_times() {
        let all = vec![Message::new("user", "aaaa"); 10_000];
        let mut counted = 0;
        let count = |kept: &[Message]| {
            counted += 1;
            Ok::<_, ()>(rendered(kept))
        };
        let fitted = super::turns(all, 400, |()| false, count).unwrap();
        assert_eq!((fitted.messages.len(), fitted.dropped), (100, 9_900), "as many as fit");
        assert!(counted < 20, "each count renders everything: {counted} counts");
    }

    #[test]
    fn fit_drops_turns_that_the_template_cannot_render() {
        let all: Vec<Message> = (0..9).map(|n| Message::new("user", format!("{n}"))).collect();
        let limited = |kept: &[Message]| if kept.len() > 3 { Err("too large") } else { Ok(rendered(kept)) };
        let is_too_large: fn(&&str) -> bool = |error| *error == "too large";
        let fitted = super::turns(all.clone(), 100, is_too_large, limited).expect("the last three messages");
        assert_eq!((fitted.rendered.text.as_str(), fitted.turns), ("678", 6), "all that the template renders");
        assert_eq!(
            super::turns(all.clone(), usize::MAX, is_too_large, limited).err(),
            Some("too large"),
            "nothing dropped"
        );
        let broken = |_: &[Message]| Err::<Rendered, _>("broken");
        assert_eq!(super::turns(all, 100, is_too_large, broken).err(), Some("broken"), "another error");
    }

    fn check_prompt(tokens: u32, context: usize, keep: i64, expected: &[u32]) {
        let cut = prompt((0..tokens).collect(), context, keep, true).expect("the prompt may be cut");
        assert_eq!(cut, expected, "{tokens} tokens in {context}, keeping {keep}");
        assert!(cut.len() < context, "the answer has room");
    }

    #[test]
    fn cut_removes_the_middle_of_a_prompt() {
        check_prompt(7, 8, 2, &[0, 1, 2, 3, 4, 5, 6]);
        check_prompt(40, 16, 2, &[0, 1, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, 3, &[0, 1, 2, 33, 34, 35, 36, 37, 38, 39]);
        check_prompt(40, 16, -1, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 100, &(0..15).collect::<Vec<_>>());
        check_prompt(40, 16, 0, &(32..40).collect::<Vec<_>>());
    }

    #[test]
    fn cut_is_refused_in_a_tiny_context() {
        for context in 4..16 {
            let error = prompt((0..20).collect(), context, 5, true).expect_err("the context is too small");
            let text = format!(
                "the prompt has 20 tokens, and a context of {context} is too small to answer even a part of it; raise num_ctx \
                 (16 at least)"
            );
            assert_eq!(error.to_string(), text, "the error states the cause and the fix");
        }
    }

    #[test]
    fn cut_is_refused_unless_allowed() {
        let error = prompt((0..20).collect(), 8, 4, false).expect_err("the prompt does not fit").to_string();
        assert!(error.starts_with("the prompt is longer than the context length currently available"), "{error}");
    }
}
