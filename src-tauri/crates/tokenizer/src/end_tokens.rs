//! Tokens that end a generation, and corrections of token kinds by name.
//!
//! Converters often store only `eos_token_id`, but a chat model ends its turn with another token. So tokens with the
//! names in these tables, which publishers of models use, end a generation too.

use crate::vocab::{TokenKind, Vocab};

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

/// Names of control tokens for fill-in-the-middle, which do not end a generation.
const FILL_IN_MIDDLE: &[&str] = &[
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

/// Names of control tokens that separate the channels of an answer in the harmony format. The parser of the answer
/// needs them.
const MARKERS: &[&str] = &["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"];

/// Names of tokens in vocabularies where `</s>` does not end a text.
const ENDS_REPLACING_EOS: &[&str] = &["<|tool_response>", "<|plamo:eos|>"];

/// Corrects `kinds` by name and returns the ids that end a generation, ascending.
pub(crate) fn resolve(vocab: &Vocab, kinds: &mut [TokenKind]) -> Vec<u32> {
    let mut ends: Vec<u32> =
        [vocab.eos, vocab.eot].into_iter().flatten().chain(vocab.end_ids.iter().copied()).collect();
    for ((id, text), kind) in (0..).zip(&vocab.tokens).zip(kinds.iter_mut()) {
        if MARKERS.contains(&text.as_str()) {
            *kind = TokenKind::Marker;
        }
        let (is_end, is_fill_in) = (ENDS.contains(&text.as_str()), FILL_IN_MIDDLE.contains(&text.as_str()));
        if !is_end && !is_fill_in {
            continue;
        }
        // As in llama.cpp, whatever type the file states. The names are parsed only in text of a template, not in that of
        // a user, where `</s>` may be HTML.
        *kind = TokenKind::Control;
        if is_end {
            ends.push(id);
        }
    }
    let id_of = |name: &str| (0..).zip(&vocab.tokens).find(|(_, text)| *text == name).map(|(id, _)| id);
    let has = |name: &str, ends: &[u32]| id_of(name).is_some_and(|id| ends.contains(&id));
    // In the harmony format `<|end|>` ends a message but not the turn, which ends with `<|return|>` or a call.
    let is_harmony =
        (has("<|return|>", &ends) && has("<|call|>", &ends)) || (has("<|calls|>", &ends) && has("<|flush|>", &ends));
    let mut remove_end = |name: &str, kind: TokenKind| {
        if let Some(end) = id_of(name).filter(|end| ends.contains(end)) {
            ends.retain(|&id| id != end);
            if let Some(place) = kinds.get_mut(end as usize) {
                *place = kind;
            }
        }
    };
    if is_harmony {
        remove_end("<|end|>", TokenKind::Marker);
    }
    if ENDS_REPLACING_EOS.iter().any(|name| id_of(name).is_some()) {
        remove_end("</s>", TokenKind::Normal);
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
        assert_eq!(resolve(&vocab, &mut kinds), wanted, "ends of {tokens:?}");
    }

    #[test]
    fn end_tokens_are_found_by_name_and_id() {
        check(&[("a", 1), ("<|im_end|>", 3), ("<|im_start|>", 3), ("</x>", 1)], Some(3), &[1, 3]);
        check(&[("<|im_end|>", 1), ("</s>", 1), ("<fim_prefix>", 3)], None, &[0, 1]);
        check(&[("</s>", 3)], None, &[0]);
    }

    #[test]
    fn harmony_message_end_does_not_end_turn() {
        check(&[("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)], Some(1), &[1, 2]);
        check(&[("<|end|>", 3), ("<|return|>", 3)], Some(1), &[0, 1]);
        check(&[("</s>", 3), ("<|tool_response>", 3)], None, &[1]);
    }

    #[test]
    fn harmony_channel_tokens_are_markers() {
        let tokens = ["<|channel|>", "<|end|>", "<|return|>", "<|call|>"].map(str::to_owned).to_vec();
        let vocab = Vocab { tokens, types: vec![3; 4], ..Vocab::default() };
        let mut kinds = vocab.kinds().expect("the vocabulary is consistent");
        resolve(&vocab, &mut kinds);
        assert_eq!(
            kinds,
            [TokenKind::Marker, TokenKind::Marker, TokenKind::Control, TokenKind::Control],
            "channel tokens are markers"
        );
    }

    #[test]
    fn end_name_marked_normal_is_one_token_in_templates_only() {
        use crate::{EncodeOptions, Tokenizer, alphabet};
        let mut tokens: Vec<String> = alphabet::letters().iter().map(char::to_string).collect();
        let end = tokens.len() as u32;
        tokens.extend(["</s>", "ab"].map(str::to_owned));
        let merges = vec!["a b".to_owned()];
        // As in the vocabulary of Qwen 2.5.
        let vocab = Vocab { model: "gpt2".to_owned(), pre: "qwen2".to_owned(), tokens, merges, ..Vocab::default() };
        let tokenizer = Tokenizer::new(vocab).expect("the vocabulary is consistent");
        let encode = |parse_special| tokenizer.encode("</s>", EncodeOptions { add_special: false, parse_special });
        assert_eq!(encode(true), [end], "text of a template");
        assert_eq!(encode(false).len(), 4, "text of a user");
        assert!(tokenizer.is_end(end), "it ends a generation");
    }
}
