//! The messages that did not fit into the context, in one line after the answer.

use cairn_wire::{Truncated, thousands};

/// Describes the turns and tokens that were left out of the prompt.
pub(super) fn text(truncated: &Truncated) -> String {
    let Truncated { turns, tokens, cut_tokens, images, context_tokens, .. } = *truncated;
    let amount = |tokens: u64| format!("{} {}", thousands(tokens), if tokens == 1 { "token" } else { "tokens" });
    let oldest = match turns {
        0 => None,
        1 => Some("the oldest turn".to_owned()),
        turns => Some(format!("the {} oldest turns", thousands(turns))),
    };
    let oldest = oldest.map(|turns| format!("{turns} ({})", amount(tokens.saturating_sub(cut_tokens))));
    let middle = (cut_tokens > 0).then(|| format!("{} out of the middle", amount(cut_tokens)));
    let images =
        (images > 0).then(|| format!("{} {}", thousands(images.into()), if images == 1 { "image" } else { "images" }));
    let all: Vec<String> = oldest.into_iter().chain(middle).chain(images).collect();
    let context = thousands(context_tokens);
    format!("Left out of the context of {context} tokens: {}.", all.join(", and "))
}

#[cfg(test)]
mod tests {
    use cairn_wire::Overflow;

    use super::*;

    #[test]
    fn left_out_line_counts_turns_and_tokens() {
        let check = |turns: u64, tokens: u64, cut_tokens: u64, images: u32, expected: &str| {
            let (reason, messages) = (Overflow::PromptTooLong, 2 * turns);
            let truncated = Truncated { reason, turns, messages, tokens, cut_tokens, images, context_tokens: 4096 };
            let line = text(&truncated);
            let beginning = "Left out of the context of 4,096 tokens: ";
            assert_eq!(line.strip_prefix(beginning), Some(expected), "{line}");
        };
        check(2, 812, 0, 0, "the 2 oldest turns (812 tokens).");
        check(1, 1, 0, 1, "the oldest turn (1 token), and 1 image.");
        check(0, 12_345, 12_345, 0, "12,345 tokens out of the middle.");
        check(0, 900, 900, 2, "900 tokens out of the middle, and 2 images.");
        check(3, 5_000, 1_000, 0, "the 3 oldest turns (4,000 tokens), and 1,000 tokens out of the middle.");
    }
}
