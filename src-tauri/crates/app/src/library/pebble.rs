//! Pebble, the built-in model. It works offline and cannot be deleted.

use cairn_gguf::Gguf;
use cairn_runtime::Source;

/// Name of the model.
pub(crate) const NAME: &str = "pebble:latest";

/// Bytes with the alignment of tensors, because the engine uses the weights in place.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../assets/pebble.gguf"));

/// The model's file.
pub(crate) fn file() -> &'static [u8] {
    &FILE.0
}

/// Source of the model for the engine.
pub(crate) fn source() -> Source {
    Source::Builtin { name: "the built-in model", bytes: file() }
}

/// The head of the model's file.
pub(crate) fn head() -> crate::library::head::Head {
    let gguf = Gguf::parse(file()).expect("the file inside the program is a GGUF file");
    crate::library::head::Head { gguf, file_bytes: file().len() as u64, paths: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_file_is_aligned_and_small() {
        assert_eq!(file().as_ptr().addr() % 64, 0, "weights are used in place");
        assert!(file().len() <= 8 << 20, "{} bytes are more than 8 MB", file().len());
        assert!(!head().gguf.metadata().is_empty(), "the file has metadata");
    }
}
