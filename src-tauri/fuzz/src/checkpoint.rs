//! A checkpoint in safetensors files with its descriptions. The first byte of the input selects the file that the other
//! bytes replace.
//!
//! Guarantees: no panic; errors have a text; a conversion writes a valid GGUF file of the planned size, or fails.

use std::fs::File;
use std::io::Write;

use cairn_convert::{CheckpointFile, Conversion};

/// Largest input that is converted: a config can declare more work than this target should do.
const MAX_BYTES: u64 = 1 << 24;

const NAMES: [&str; 5] =
    ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json", "model.safetensors"];

/// A valid checkpoint without its weights.
const CONTENTS: [&str; 4] = [
    r###"{"architectures": ["BertModel"], "hidden_act": "gelu", "num_hidden_layers": 1, "hidden_size": 4,
       "max_position_embeddings": 3, "intermediate_size": 8, "num_attention_heads": 2, "layer_norm_eps": 1e-12,
       "type_vocab_size": 2}"###,
    r###"{"normalizer": {"lowercase": true}, "added_tokens": [{"id": 0, "content": "[PAD]"}],
       "model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "a": 1, "##b": 2}}}"###,
    r###"[{"path": "1_Pooling", "type": "models.Pooling"}]"###,
    r###"{"pooling_mode_mean_tokens": true}"###,
];

/// Returns a safetensors file of one matrix.
fn weights() -> Vec<u8> {
    let header =
        br#"{"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header, &[0; 48]].concat()
}

fn file(contents: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("the system has temporary files");
    file.write_all(contents).expect("the system has temporary files");
    file
}

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let Some((&choice, replaced)) = input.split_first() else { return };
    let choice = usize::from(choice) % NAMES.len();
    let mut contents: Vec<Vec<u8>> = CONTENTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    contents.push(weights());
    contents[choice] = replaced.to_vec();
    let named = NAMES.iter().zip(&contents);
    let files: Vec<CheckpointFile> =
        named.map(|(name, contents)| CheckpointFile { name: (*name).to_owned(), file: file(contents) }).collect();
    let planned = Conversion::new(&files).and_then(|plan| plan.size_bytes().map(|size| (plan, size)));
    let (plan, size) = match planned {
        Ok((_, size)) if size > MAX_BYTES => return,
        Ok(planned) => planned,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error has a text");
            return;
        }
    };
    let mut written = Vec::new();
    match plan.write_to(&mut written, &mut |_| ()) {
        Ok(()) => {
            assert_eq!(written.len() as u64, size, "the planned size");
            cairn_gguf::Gguf::parse(&written).expect("the written file is valid");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "an error has a text"),
    }
}
