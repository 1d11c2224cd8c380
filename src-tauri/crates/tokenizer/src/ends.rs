//! Which tokens end a generation, and which names give a token away when a file has its type wrong.
//!
//! Converters often store only `eos_token_id`, while a chat model ends its turn with another token, so the well-known names
//! count as well. The table is what the publishers of models call their tokens.

use crate::vocab::{Kind, Vocab};

/// Names of control tokens that end a generation.
const ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<eos>",
    "[EOS]",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Names of control tokens for filling in the middle, which do not end anything.
const FILL_IN: &[&str] = &[
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<fim-prefix>",
    "<fim-suffix>",
    "<fim-middle>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "<|code_prefix|>",
    "<|code_suffix|>",
    "<|code_middle|>",
    "<|prefix|>",
    "<|suffix|>",
    "<|middle|>",
];

/// Names of control tokens that part the channels of an answer in the harmony format. What reads the answer must see them.
const MARKERS: &[&str] = &["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"];

/// Names that show that `</s>` is not what ends a text.
const OTHER_ENDS: &[&str] = &["<|tool_response>", "<|plamo:eos|>"];

/// Corrects `kinds` by name and gives the ids that end a generation, in ascending order.
pub(crate) fn settle(vocab: &Vocab, kinds: &mut [Kind]) -> Vec<u32> {
    let mut ends: Vec<u32> = [vocab.eos, vocab.eot].into_iter().flatten().chain(vocab.ends.iter().copied()).collect();
    for ((id, text), kind) in (0..).zip(&vocab.tokens).zip(kinds.iter_mut()) {
        if MARKERS.contains(&text.as_str()) {
            *kind = Kind::Marker;
        }
        let (is_end, is_fill_in) = (ENDS.contains(&text.as_str()), FILL_IN.contains(&text.as_str()));
        if !is_end && !is_fill_in {
            continue;
        }
        // `</s>` and the like are also pieces of HTML, so an ordinary token of that name is believed to be ordinary.
        if *kind == Kind::Normal && !text.starts_with("<|") && !text.starts_with("<｜") {
            continue;
        }
        *kind = Kind::Control;
        if is_end {
            ends.push(id);
        }
    }
    let id_of = |name: &str| (0..).zip(&vocab.tokens).find(|(_, text)| *text == name).map(|(id, _)| id);
    let has = |name: &str, ends: &[u32]| id_of(name).is_some_and(|id| ends.contains(&id));
    // In the harmony format a message ends with `<|end|>` but the turn goes on, to `<|return|>` or a call.
    let goes_on =
        (has("<|return|>", &ends) && has("<|call|>", &ends)) || (has("<|calls|>", &ends) && has("<|flush|>", &ends));
    let mut keep_going = |name: &str, kind: Kind| {
        if let Some(end) = id_of(name).filter(|end| ends.contains(end)) {
            ends.retain(|&id| id != end);
            if let Some(place) = kinds.get_mut(end as usize) {
                *place = kind;
            }
        }
    };
    if goes_on {
        keep_going("<|end|>", Kind::Marker);
    }
    if OTHER_ENDS.iter().any(|name| id_of(name).is_some()) {
        keep_going("</s>", Kind::Normal);
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[(&str, i32)], eos: Option<u32>, wanted: &[u32]) {
        let (texts, types) = tokens.iter().map(|&(text, kind)| (text.to_owned(), kind)).unzip();
        let vocab = Vocab { tokens: texts, types, eos, ..Vocab::default() };
        let mut kinds = vocab.kinds().expect("the vocabulary is consistent");
        assert_eq!(settle(&vocab, &mut kinds), wanted, "ends of {tokens:?}");
    }

    #[test]
    fn names_and_ids_end() {
        check(&[("a", 1), ("<|im_end|>", 3), ("<|im_start|>", 3), ("</x>", 1)], Some(3), &[1, 3]);
        check(&[("<|im_end|>", 1), ("</s>", 1), ("<fim_prefix>", 3)], None, &[0]);
        check(&[("</s>", 3)], None, &[0]);
    }

    #[test]
    fn a_harmony_message_does_not_end_the_turn() {
        check(&[("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)], Some(1), &[1, 2]);
        check(&[("<|end|>", 3), ("<|return|>", 3)], Some(1), &[0, 1]);
        check(&[("</s>", 3), ("<|tool_response>", 3)], None, &[1]);
    }

    #[test]
    fn channels_are_marked() {
        let tokens = ["<|channel|>", "<|end|>", "<|return|>", "<|call|>"].map(str::to_owned).to_vec();
        let vocab = Vocab { tokens, types: vec![3; 4], ..Vocab::default() };
        let mut kinds = vocab.kinds().expect("the vocabulary is consistent");
        settle(&vocab, &mut kinds);
        assert_eq!(kinds, [Kind::Marker, Kind::Marker, Kind::Control, Kind::Control], "what parts an answer is shown");
    }
}
