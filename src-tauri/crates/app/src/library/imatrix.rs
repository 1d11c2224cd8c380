//! Importance matrices: computes one of a model on a text, in the form of llama.cpp's files.

use std::io::{self, Write};
use std::path::Path;

use cairn_convert::importance::ActivationSums;
use cairn_hardware::Machine;
use cairn_runtime::{GenerateError, ImportanceRun, LoadError};

/// Tokens of a chunk: llama.cpp's default.
pub const CHUNK_TOKENS: usize = 512;
/// Longest text. Usual ones have a few megabytes.
pub const MAX_TEXT_BYTES: u64 = 256 << 20;

/// Why an importance matrix could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ImatrixError {
    /// The model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A chunk could not be computed.
    #[error(transparent)]
    Compute(#[from] GenerateError),
    /// The text is too short.
    #[error("the text has {tokens} tokens, and a chunk needs {needed}; use a longer text, a megabyte or more is usual")]
    ShortText {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens of a chunk.
        needed: usize,
    },
    /// The output could not be written.
    #[error("cannot write the importance matrix: {0}")]
    Write(#[from] io::Error),
}

/// A computed importance matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputedImatrix {
    /// Number of tensors with an entry.
    pub tensors: usize,
    /// Number of chunks of the text.
    pub chunks: usize,
    /// Number of tokens of the text in these chunks.
    pub tokens: usize,
}

/// Computes a model on the whole chunks of a text, at most `max_chunks`, and writes the importance matrix. `dataset` names the text
/// in the file. `on_progress` is called with the computed tokens and all tokens after each chunk.
///
/// # Errors
/// When the model cannot be loaded or computed, the text is shorter than a chunk, or on an I/O error of `out`.
pub fn compute(
    model: &Path,
    (dataset, text): (&str, &str),
    max_chunks: Option<usize>,
    out: &mut impl Write,
    on_progress: &mut dyn FnMut(usize, usize),
) -> Result<ComputedImatrix, ImatrixError> {
    let mut run = ImportanceRun::open(model, &Machine::probe(), CHUNK_TOKENS)?;
    let tokens = run.tokenize(text);
    let needed = run.text_tokens();
    let count = (tokens.len() / needed).min(max_chunks.unwrap_or(usize::MAX));
    if count == 0 {
        return Err(ImatrixError::ShortText { tokens: tokens.len(), needed });
    }
    for (done, chunk) in tokens.chunks_exact(needed).take(count).enumerate() {
        run.add(chunk)?;
        on_progress((done + 1) * needed, count * needed);
    }
    let mut sums = ActivationSums::default();
    for squares in run.finish() {
        let matrices = squares.matrices.into_iter().map(|matrix| (matrix.inputs, matrix.sums));
        sums.insert(&squares.name, matrices.collect());
    }
    let chunks = u32::try_from(count).unwrap_or(u32::MAX);
    sums.write_to(dataset, chunks, CHUNK_TOKENS as u32, out)?;
    Ok(ComputedImatrix { tensors: sums.len(), chunks: count, tokens: count * needed })
}

#[cfg(test)]
mod tests {
    use cairn_convert::Importance;
    use cairn_gguf::{DType, Gguf, Tensor};
    use cairn_testkit::{ModelSpec, Types, tiny_llama};

    use super::*;

    /// Checks that the matrices of layers that `is_expected` selects have entries.
    fn check_entries(importance: &Importance, head: &Gguf, is_expected: impl Fn(&Tensor) -> bool) {
        let tensors = head.tensors().iter().filter(|tensor| tensor.name.starts_with("blk.") && is_expected(tensor));
        let mut count = 0;
        for tensor in tensors {
            let values = importance.of(tensor).unwrap_or_else(|| panic!("{} has an entry", tensor.name));
            assert!(values.iter().all(|value| *value > 0.0), "{}: every column has inputs", tensor.name);
            count += 1;
        }
        assert!(count > 0, "the model has such tensors");
    }

    #[test]
    fn matrices_by_head_of_latent_attention_have_entries() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m.gguf");
        let spec = cairn_testkit::presets::tiny(&cairn_testkit::families::DEEPSEEK2);
        cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
        let (text, mut file) = ("the quick brown fox jumps over the lazy dog. ".repeat(200), Vec::new());
        compute(&path, ("fox.txt", &text), Some(1), &mut file, &mut |_, _| ()).expect("it computes");
        let head = Gguf::parse(&std::fs::read(&path).expect("written")).expect("a valid model");
        let importance = Importance::parse(&file).expect("a valid importance matrix");
        importance.check(&head).expect("it belongs to the model");
        check_entries(&importance, &head, |tensor| {
            ["attn_k_b.weight", "attn_v_b.weight"].iter().any(|name| tensor.name.ends_with(name))
        });
    }

    #[test]
    fn computed_matrix_has_an_entry_for_each_matrix_of_the_layers() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m.gguf");
        let spec = ModelSpec { types: Types::All(DType::F16), ..tiny_llama() };
        cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(200);
        let (mut file, mut steps) = (Vec::new(), Vec::new());
        let mut on_progress = |done, total| steps.push((done, total));
        let computed = compute(&path, ("fox.txt", &text), Some(2), &mut file, &mut on_progress).expect("it computes");
        assert_eq!(computed.chunks, 2, "no more than two");
        assert_eq!(steps.last(), Some(&(computed.tokens, computed.tokens)), "complete at the end");
        let head = cairn_gguf::Gguf::parse(&std::fs::read(&path).expect("written")).expect("a valid model");
        let importance = Importance::parse(&file).expect("a valid importance matrix");
        importance.check(&head).expect("it belongs to the model");
        check_entries(&importance, &head, |tensor| tensor.dims.len() == 2);
        let counts = Gguf::parse(&file).expect("a GGUF file");
        let first = counts.tensors().iter().find(|tensor| tensor.name.ends_with(".counts")).expect("counts");
        let count = f32::from_le_bytes(file[first.offset as usize..][..4].try_into().expect("four bytes"));
        assert_eq!(count, 1024.0, "two chunks of 512 tokens");
        assert_eq!(importance.datasets, ["fox.txt"]);

        let error =
            compute(&path, ("x", "short"), None, &mut Vec::new(), &mut |_, _| ()).expect_err("one chunk at least");
        assert!(error.to_string().starts_with("the text has "), "{error}");
    }
}
