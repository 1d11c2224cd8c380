//! A checkpoint in safetensors files with its descriptions: of BERT, or of Llama with byte pairs or with SentencePiece. The first
//! byte of the input selects the checkpoint and the file that the other bytes replace.
//!
//! Guarantees: no panic; errors have a text; a conversion writes a valid GGUF file of the planned size, or fails.

use std::fs::File;
use std::io::Write;

use cairn_convert::{CheckpointFile, Conversion, FileType};

/// Largest input that is converted: a config can declare more work than this target should do.
const MAX_BYTES: u64 = 1 << 24;

/// Names and contents of valid checkpoints without their weights, and a matrix of the model.
const CHECKPOINTS: [(&[(&str, &str)], &str); 3] = [
    (
        &[
            (
                "config.json",
                r###"{"architectures": ["BertModel"], "hidden_act": "gelu", "num_hidden_layers": 1, "hidden_size": 4,
                   "max_position_embeddings": 3, "intermediate_size": 8, "num_attention_heads": 2,
                   "layer_norm_eps": 1e-12, "type_vocab_size": 2}"###,
            ),
            (
                "tokenizer.json",
                r###"{"normalizer": {"type": "BertNormalizer", "lowercase": true},
                   "added_tokens": [{"id": 0, "content": "[PAD]"}],
                   "model": {"type": "WordPiece", "vocab": {"[PAD]": 0, "a": 1, "##b": 2}}}"###,
            ),
            ("modules.json", r###"[{"path": "1_Pooling", "type": "models.Pooling"}]"###),
            ("1_Pooling/config.json", r###"{"pooling_mode_mean_tokens": true}"###),
        ],
        "embeddings.word_embeddings.weight",
    ),
    (
        &[
            ("config.json", LLAMA),
            (
                "tokenizer.json",
                r###"{"pre_tokenizer": {"type": "ByteLevel"}, "post_processor": {"type": "ByteLevel"},
                   "added_tokens": [{"id": 2, "content": "<s>", "special": true}],
                   "model": {"type": "BPE", "vocab": {"a": 0, "aa": 1}, "merges": ["a a", ["a", "a"]]}}"###,
            ),
            (
                "tokenizer_config.json",
                r###"{"bos_token": "<s>", "eos_token": {"content": "aa"}, "chat_template": "x"}"###,
            ),
            (
                "model.safetensors.index.json",
                r###"{"weight_map": {"model.embed_tokens.weight": "model.safetensors"}}"###,
            ),
        ],
        "model.embed_tokens.weight",
    ),
    (
        &[
            ("config.json", LLAMA),
            ("tokenizer.model", "\x0a\x05\x0a\x01a\x18\x01\x12\x02\x18\x02"),
            ("tokenizer_config.json", r###"{"added_tokens_decoder": {"1": {"content": "<s>", "special": true}}}"###),
            ("generation_config.json", r###"{"temperature": 0.5, "top_k": 20}"###),
        ],
        "model.embed_tokens.weight",
    ),
];

const LLAMA: &str = r###"{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 3,
    "max_position_embeddings": 3, "intermediate_size": 8, "num_attention_heads": 2, "rms_norm_eps": 1e-5,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}, "rope_scaling": {"rope_type": "llama3"}}"###;

/// Returns a safetensors file of one matrix.
fn weights(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}": {{"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 48]].concat()
}

fn file(contents: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("the system has temporary files");
    file.write_all(contents).expect("the system has temporary files");
    file
}

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let Some((&choice, replaced)) = input.split_first() else { return };
    let (descriptions, matrix) = CHECKPOINTS[usize::from(choice) / 5 % CHECKPOINTS.len()];
    let mut contents: Vec<(&str, Vec<u8>)> =
        descriptions.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect();
    contents.push(("model.safetensors", weights(matrix)));
    let choice = usize::from(choice) % contents.len();
    contents[choice].1 = replaced.to_vec();
    let target = if replaced.len().is_multiple_of(2) { FileType::F16 } else { FileType::Q4_K_M };
    let files: Vec<CheckpointFile> = contents
        .iter()
        .map(|(name, contents)| CheckpointFile { name: (*name).to_owned(), file: file(contents) })
        .collect();
    let planned = Conversion::new(&files, target).and_then(|plan| plan.head().map(|(_, size)| (plan, size)));
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
