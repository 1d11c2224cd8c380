//! Real vocabularies, from `shared/conformance` of a parent folder or from the folder `CAIRN_CONFORMANCE`. They are not part of this
//! repository; without them, the tests are skipped with a message.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_gguf::Gguf;
use cairn_grammar::{Constraint, Matcher, Vocabulary};
use cairn_tokenizer::{EncodeOptions, Tokenizer};

use crate::common::schema;

#[expect(clippy::disallowed_methods, reason = "the environment names the folder of data outside the repository")]
fn files() -> Vec<PathBuf> {
    let named = std::env::var_os("CAIRN_CONFORMANCE").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/conformance"));
    let Some(folder) = named.into_iter().chain(above).map(|folder| folder.join("vocab")).find(|folder| folder.is_dir())
    else {
        eprintln!("SKIPPED: no data for CAIRN_CONFORMANCE");
        return Vec::new();
    };
    let entries = fs::read_dir(folder).expect("the folder is readable").flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "gguf")).collect()
}

fn vocabulary(tokenizer: &Tokenizer) -> std::sync::Arc<Vocabulary> {
    let ids = 0..tokenizer.vocab_size() as u32;
    let pieces = ids.map(|id| if tokenizer.is_control(id) { &[][..] } else { tokenizer.piece(id) });
    Vocabulary::new(pieces, tokenizer.end_ids()).expect("a published vocabulary is valid")
}

#[test]
fn encoded_answers_are_accepted_token_by_token() {
    for path in files() {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let file = fs::read(&path).expect("the file is readable");
        let metadata = Gguf::parse(&file).expect("a valid file");
        let Ok(tokenizer) = Tokenizer::from_metadata(metadata.metadata()) else { continue };
        if name.contains("bert") {
            // Its pieces are parts of normalised words, not of a text.
            continue;
        }
        let vocabulary = vocabulary(&tokenizer);
        let person = schema(
            r#"{"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items":
            {"enum": ["old", "new"]}}}, "required": ["name", "tags"], "additionalProperties": false}"#,
        );
        let answer = "{\n  \"name\": \"Zoë 🦙 O'Hara\\n\",\n  \"tags\": [\"old\", \"new\"]\n}";
        for constraint in [Constraint::JsonObject, person] {
            let mut matcher = Matcher::new(&vocabulary, &constraint).expect("it compiles");
            let mut tokens = tokenizer.encode(answer, EncodeOptions::default());
            // SentencePiece adds a blank to the start of a text, which an answer does not have.
            if tokens.first().is_some_and(|&first| tokenizer.piece(first).starts_with(b" ")) {
                tokens = tokenizer.encode(&format!("\n{answer}"), EncodeOptions::default());
                let start = tokens.iter().position(|&token| tokenizer.piece(token).starts_with(b"{"));
                tokens.drain(..start.expect("the brace has a token"));
            }
            for (position, &token) in tokens.iter().enumerate() {
                let mask = matcher.mask().expect("a mask");
                let piece = String::from_utf8_lossy(tokenizer.piece(token)).into_owned();
                assert!(mask.is_allowed(token), "{name}: token {position}, {piece:?}, is allowed");
                assert!(
                    tokenizer.end_ids().iter().all(|&end| !mask.is_allowed(end)),
                    "{name}: not complete before {piece:?}"
                );
                matcher.accept(token).expect("an allowed token is accepted");
            }
            assert!(matcher.is_complete(), "{name}: the object is closed");
            let mask = matcher.mask().expect("a mask");
            assert_eq!(mask.count(), tokenizer.end_ids().len(), "{name}: only end tokens may follow");
        }
    }
}
