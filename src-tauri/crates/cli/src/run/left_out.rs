//! What did not fit into the context, in one line after the answer.

use cairn_wire::ollama::Truncated;

use crate::human;

/// What the model did not see.
pub(super) fn text(truncated: &Truncated) -> String {
    let Truncated { turns, tokens, cut_tokens, context_tokens, .. } = *truncated;
    let amount = |tokens: u64| format!("{} {}", human::thousands(tokens), if tokens == 1 { "token" } else { "tokens" });
    let oldest = match turns {
        0 => None,
        1 => Some("the oldest turn".to_owned()),
        turns => Some(format!("the {} oldest turns", human::thousands(turns))),
    };
    let oldest = oldest.map(|turns| format!("{turns} ({})", amount(tokens.saturating_sub(cut_tokens))));
    let middle = (cut_tokens > 0).then(|| format!("{} out of the middle", amount(cut_tokens)));
    let all: Vec<String> = oldest.into_iter().chain(middle).collect();
    let context = human::thousands(context_tokens);
    format!("Left out, since {context} tokens of context have no room for it: {}.", all.join(", and "))
}

#[cfg(test)]
mod tests {
    use cairn_wire::ollama::Overflow;

    use super::*;

    #[test]
    fn one_line_says_what_was_left_out() {
        let check = |turns: u64, tokens: u64, cut_tokens: u64, expected: &str| {
            let (reason, messages) = (Overflow::PromptTooLong, 2 * turns);
            let truncated = Truncated { reason, turns, messages, tokens, cut_tokens, context_tokens: 4096 };
            let said = text(&truncated);
            let beginning = "Left out, since 4,096 tokens of context have no room for it: ";
            assert_eq!(said.strip_prefix(beginning), Some(expected), "{said}");
        };
        check(2, 812, 0, "the 2 oldest turns (812 tokens).");
        check(1, 1, 0, "the oldest turn (1 token).");
        check(0, 12_345, 12_345, "12,345 tokens out of the middle.");
        check(3, 5_000, 1_000, "the 3 oldest turns (4,000 tokens), and 1,000 tokens out of the middle.");
    }
}
