//! Pebble, the small model inside this program: it knows Cairn and nothing else, works offline, and cannot be deleted.

use cairn_gguf::Gguf;
use cairn_runtime::Source;

/// The name by which it is run.
pub(crate) const NAME: &str = "pebble:latest";

/// Bytes at an address that suits every tensor: the engine uses weights where they lie.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static FILE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../assets/pebble.gguf"));

/// The model's file.
pub(crate) fn file() -> &'static [u8] {
    &FILE.0
}

/// Where the engine finds it.
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
    fn the_file_is_aligned_and_small() {
        assert_eq!(file().as_ptr().addr() % 64, 0, "weights are used where they lie");
        assert!(file().len() <= 8 << 20, "{} bytes are more than 8 MB", file().len());
        assert!(!head().gguf.metadata().is_empty(), "it says what it is");
    }
}
