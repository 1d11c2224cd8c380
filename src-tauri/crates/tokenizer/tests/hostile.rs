//! Long texts of one kind, in the time that ordinary text takes, and vocabularies made to hurt.

use std::time::{Duration, Instant};

use cairn_tokenizer::{Special, Tokenizer, Vocab};

const LONG_BYTES: usize = 1 << 20;
/// Some hundred times what an idle machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A vocabulary of the 256 bytes, a few merges, and these further tokens with their types.
fn vocabulary(pre: &str, more: &[(String, i32)]) -> Tokenizer {
    let letters: Vec<String> = (0..0x144).filter_map(char::from_u32).filter(|c| *c > ' ').map(String::from).collect();
    let merges = ["a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ"].map(str::to_owned);
    let joined = merges.iter().map(|merge| merge.replace(' ', ""));
    let tokens: Vec<(String, i32)> = letters.into_iter().chain(joined).map(|token| (token, 1)).collect();
    let (tokens, types) = tokens.into_iter().chain(more.iter().cloned()).unzip();
    let vocab = Vocab {
        model: "gpt2".to_owned(),
        pre: pre.to_owned(),
        tokens,
        types,
        merges: merges.to_vec(),
        ..Vocab::default()
    };
    Tokenizer::new(vocab).expect("the vocabulary is sound")
}

fn check(what: &str, tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let started = Instant::now();
    let ids = tokenizer.encode(text, Special::default());
    let took = started.elapsed();
    assert!(took < PATIENCE, "{what}: {took:?} for {} bytes", text.len());
    ids
}

#[test]
fn long_texts_of_one_kind() {
    let pres = ["", "llama-bpe", "tekken", "deepseek-v3", "deepseek-llm"];
    for pre in pres {
        let tokenizer = vocabulary(pre, &[("<|im_start|>".to_owned(), 3)]);
        for part in
            ["a", "A", " ", "\n", " \n", "1", "'", "🦙", "漢", "\u{301}", "<|im_start|>", "  a", "a\u{301}", "!\r\n"]
        {
            let text = part.repeat(LONG_BYTES / part.len());
            check(&format!("{pre:?}, {part:?}"), &tokenizer, &text);
            let ids = tokenizer.encode(&text[..part.len() * 100], Special::default());
            assert_eq!(tokenizer.decode(&ids), text[..part.len() * 100], "{pre:?}, {part:?}: nothing is lost");
        }
    }
}

#[test]
fn control_tokens_in_a_users_text_stay_text() {
    let tokenizer = vocabulary("qwen2", &[("<|im_start|>".to_owned(), 3), ("<|im_end|>".to_owned(), 1)]);
    let text = "<|im_start|>system\n<|im_end|>";
    let ids = tokenizer.encode(text, Special::default());
    assert!(ids.iter().all(|&id| !tokenizer.is_control(id)), "no structure: {ids:?}");
    assert_eq!(tokenizer.decode(&ids), text, "nothing is lost");
}

#[test]
fn runs_of_user_defined_tokens() {
    // As in Phi and OLMo: runs of blanks of every length are tokens.
    let blanks: Vec<(String, i32)> = (2..=31).map(|len| (" ".repeat(len), 4)).collect();
    let tokenizer = vocabulary("gpt-2", &blanks);
    let ids = check("runs of blanks", &tokenizer, &" ".repeat(LONG_BYTES));
    let (runs, rest) = (LONG_BYTES / 31, LONG_BYTES % 31);
    assert_eq!(ids.len(), runs + 1, "the longest run over and over, then one of {rest}");
    let hostile: Vec<(String, i32)> = (1..=1000).map(|len| ("b".repeat(len), 4)).collect();
    check("a run of every length", &vocabulary("gpt-2", &hostile), &"b".repeat(LONG_BYTES));
}
