//! Limits of one document.

/// Limits of one document. The defaults admit books and large tables, and are far from exhausting a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of all compressed contents together, after decompression.
    pub inflated_bytes: u64,
    /// Entries of an archive.
    pub entries: usize,
    /// Elements inside each other in XML.
    pub depth: usize,
    /// Pages, sheets, slides or sections.
    pub parts: usize,
    /// Characters of all text.
    pub chars: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 128 << 20,
            inflated_bytes: 512 << 20,
            entries: 20_000,
            depth: 256,
            parts: 50_000,
            chars: 20_000_000,
        }
    }
}
