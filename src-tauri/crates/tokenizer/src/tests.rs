//! The tokenizer as a whole, on a vocabulary small enough to work out by hand.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// The 256 bytes as ids 0 to 255 in order of the bytes, then a few merges and special tokens.
fn small(pre: &str) -> Vocab {
    let mut tokens: Vec<String> = alphabet::letters().iter().map(char::to_string).collect();
    let more = [
        ("he", 1),
        ("ll", 1),
        ("hell", 1),
        ("hello", 1),
        ("Ġhello", 1),
        ("<|im_start|>", 3),
        ("<|im_end|>", 3),
        ("\n\n", 4),
        ("pad", 5),
    ];
    let mut types = vec![1; tokens.len()];
    for (text, kind) in more {
        tokens.push(text.to_owned());
        types.push(kind);
    }
    let merges = ["h e", "l l", "he ll", "hell o"].map(str::to_owned).to_vec();
    let (bos, eos) = (Some(261), Some(262));
    Vocab { model: "gpt2".to_owned(), pre: pre.to_owned(), tokens, merges, types, bos, eos, ..Vocab::default() }
}

fn tokenizer(pre: &str) -> Tokenizer {
    Tokenizer::new(small(pre)).expect("the small vocabulary is valid")
}

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
const FULL: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

fn check(pre: &str, text: &str, special: EncodeOptions, wanted: &[u32]) {
    assert_eq!(tokenizer(pre).encode(text, special), wanted, "{text:?} with {pre:?}, {special:?}");
}

#[test]
fn merges_join_bytes_to_words() {
    check("gpt-2", "hello", PLAIN, &[259]);
    check("gpt-2", " hello", PLAIN, &[32, 259]);
    check("gpt-2", "heo", PLAIN, &[256, 111]);
    check("gpt-2", "é", PLAIN, &[0xC3, 0xA9]);
    check("gpt-2", "", PLAIN, &[]);
}

#[test]
fn whole_word_is_a_token_without_merges() {
    check("llama-bpe", " hello", PLAIN, &[260]);
}

#[test]
fn control_tokens_are_parsed_only_on_request() {
    check("gpt-2", "<|im_end|>", EncodeOptions { add_special: false, parse_special: true }, &[262]);
    let as_text: Vec<u32> = "<|im_end|>".bytes().map(u32::from).collect();
    check("gpt-2", "<|im_end|>", PLAIN, &as_text);
    check("gpt-2", "a\n\nb", PLAIN, &[97, 263, 98]);
}

#[test]
fn bos_and_eos_are_added_by_flags() {
    check("gpt-2", "hello", FULL, &[259]);
    check("llama-bpe", "hello", FULL, &[261, 259]);
    let both = Vocab { add_bos: Some(true), add_eos: Some(true), ..small("gpt-2") };
    let ids = Tokenizer::new(both).expect("sound").encode("", FULL);
    assert_eq!(ids, [261, 262], "an empty text gets both");
    let neither = Vocab { add_bos: Some(true), bos: None, ..small("gpt-2") };
    let neither = Tokenizer::new(neither).expect("sound");
    assert_eq!(neither.encode("", FULL), Vec::<u32>::new(), "a flag without a token is ignored");
    assert!(!neither.adds_bos(), "`adds_bos` is false");
}

#[test]
fn control_tokens_are_not_shown() {
    let tokenizer = tokenizer("gpt-2");
    assert_eq!(tokenizer.decode(&[261, 259, 263, 264, 262, 9999]), "hello\n\n", "only text is shown");
    assert_eq!(tokenizer.piece_with_special(262), b"<|im_end|>", "names on request");
    assert!(tokenizer.is_end(262) && tokenizer.is_control(262), "the end of a turn ends a generation");
    assert!(!tokenizer.is_end(261) && !tokenizer.is_end(9999), "other tokens do not");
    assert_eq!(tokenizer.vocab_size(), 265, "every token counts");
}

#[test]
fn decoder_buffers_incomplete_character() {
    let tokenizer = Arc::new(tokenizer("gpt-2"));
    let mut decoder = Decoder::new(Arc::clone(&tokenizer));
    assert_eq!(decoder.push(0xC3), "", "the first half of é");
    assert_eq!(decoder.push(0xA9), "é", "the second half");
    assert_eq!(decoder.push(0xC3), "", "a half that is not completed");
    assert_eq!(decoder.finish(), "\u{FFFD}", "is replaced on finish");
}

#[test]
fn invalid_vocabularies_are_refused() {
    let refused = |change: fn(&mut Vocab)| {
        let mut vocab = small("gpt-2");
        change(&mut vocab);
        Tokenizer::new(vocab).err()
    };
    assert_eq!(refused(|v| v.tokens.clear()), Some(Error::NoTokens), "no tokens");
    assert_eq!(refused(|v| v.merges.clear()), Some(Error::NoMerges), "no merges");
    assert_eq!(refused(|v| v.types.truncate(3)), Some(Error::TypeCount { types: 3, tokens: 265 }), "too few types");
    let out_of_range = Error::IdOutOfRange { role: "eos", id: 265, tokens: 265 };
    assert_eq!(refused(|v| v.eos = Some(265)), Some(out_of_range), "an id beyond the vocabulary");
    assert_eq!(
        refused(|v| v.model = "rwkv".into()),
        Some(Error::UnknownModel { model: "rwkv".into() }),
        "another model"
    );
    assert_eq!(
        refused(|v| v.pre = "x".into()),
        Some(Error::UnknownPreTokenizer { pre: "x".into() }),
        "another pre-tokenizer"
    );
}

#[test]
fn vocabulary_is_read_from_metadata() {
    let mut metadata = Metadata::new();
    let missing = Vocab::from_metadata(&metadata).map_err(|error| error.to_string());
    assert!(missing.is_err_and(|error| error.contains("tokenizer.ggml.model")), "the error names the missing key");
    let vocab = small("qwen2");
    metadata.set("tokenizer.ggml.model", vocab.model.clone());
    metadata.set("tokenizer.ggml.pre", vocab.pre.clone());
    metadata.set("tokenizer.ggml.tokens", vocab.tokens.clone());
    metadata.set("tokenizer.ggml.merges", vocab.merges.clone());
    metadata.set("tokenizer.ggml.token_type", vocab.types.clone());
    metadata.set("tokenizer.ggml.bos_token_id", 261_u32);
    metadata.set("tokenizer.ggml.eos_token_id", 262_u32);
    assert_eq!(Vocab::from_metadata(&metadata), Ok(vocab.clone()), "each key sets its field");
    metadata.set("tokenizer.ggml.fim_pad_token_id", 264_u32);
    metadata.set("tokenizer.ggml.eos_token_ids", vec![262_i32, 258]);
    metadata.set("tokenizer.ggml.add_bos_token", true);
    let read = Vocab::from_metadata(&metadata).expect("still sound");
    assert_eq!(
        read,
        Vocab { end_ids: vec![264, 262, 258], add_bos: Some(true), ..vocab },
        "optional keys set their fields"
    );
    let ends = Tokenizer::from_metadata(&metadata).map(|made| made.end_ids().to_vec());
    assert_eq!(ends, Ok(vec![258, 262, 264]), "the ids end a generation");
}

#[test]
fn long_words_take_linear_time() {
    let tokenizer = tokenizer("gpt-2");
    let text = "hello".repeat(200_000);
    assert_eq!(tokenizer.encode(&text, PLAIN).len(), 200_000, "1 MB without a blank");
}

proptest! {
    #[test]
    fn decode_inverts_encode(text in any::<String>(), repeats in 1..40_usize) {
        let text = text.repeat(repeats);
        for pre in ["gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "falcon"] {
            let tokenizer = tokenizer(pre);
            let ids = tokenizer.encode(&text, PLAIN);
            prop_assert_eq!(tokenizer.decode(&ids), text.as_str(), "with {}", pre);
        }
    }

    #[test]
    fn streaming_decode_equals_decode(ids in prop::collection::vec(0..300_u32, 0..50)) {
        let tokenizer = tokenizer("gpt-2");
        let mut decoder = tokenizer.decoder();
        let mut text: String = ids.iter().map(|&id| decoder.push(id)).collect();
        text += &decoder.finish();
        prop_assert_eq!(text, tokenizer.decode(&ids));
    }

    #[test]
    fn random_vocabulary_never_panics(
        tokens in prop::collection::vec(any::<String>(), 0..12),
        merges in prop::collection::vec("[a-c ]{0,4}", 0..6),
        types in prop::collection::vec(-1..8_i32, 0..12),
        text in any::<String>(),
    ) {
        let vocab = Vocab { model: "gpt2".to_owned(), pre: "qwen2".to_owned(), tokens, merges, types, ..Vocab::default() };
        if let Ok(tokenizer) = Tokenizer::new(vocab) {
            let ids = tokenizer.encode(&text, FULL);
            tokenizer.decode(&ids);
        }
    }
}
