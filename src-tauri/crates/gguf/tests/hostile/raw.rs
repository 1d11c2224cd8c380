//! A file's head, field by field, so that any field can be wrong, and the error that must follow.

/// A head in the making.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) bytes: Vec<u8>,
    /// Whether counts, lengths and dimensions have 32 bits, as in version 1.
    narrow: bool,
    at: u64,
}

/// A file that must be refused.
pub(crate) struct Broken {
    /// The fault, for the table.
    pub(crate) what: &'static str,
    pub(crate) file: Vec<u8>,
    /// The header, key or tensor that the error must name.
    pub(crate) place: &'static str,
    /// Byte offset of the wrong field, which the error must contain.
    pub(crate) offset: u64,
    /// The text of the error, with `*` for a number that the test does not know.
    pub(crate) error: &'static str,
}

impl Raw {
    /// Creates a file of exactly these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Raw {
        Raw { bytes: bytes.to_vec(), narrow: false, at: 0 }
    }

    /// Creates a file header: magic, version and counts.
    pub(crate) fn head(version: u32, tensors: u64, entries: u64) -> Raw {
        let raw = Raw { narrow: version == 1, ..Raw::of(b"GGUF") };
        raw.u32(version).length(tensors).length(entries)
    }

    /// Marks the next byte as the offset that the error must contain.
    pub(crate) fn here(mut self) -> Raw {
        self.at = self.bytes.len() as u64;
        self
    }

    /// Marks `offset` as the offset that the error must contain.
    pub(crate) fn at(mut self, offset: u64) -> Raw {
        self.at = offset;
        self
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.bytes.extend(bytes);
        self
    }

    pub(crate) fn u32(self, value: u32) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Raw {
        self.bytes(&value.to_le_bytes())
    }

    /// A count, a length or a dimension.
    pub(crate) fn length(self, value: u64) -> Raw {
        if self.narrow { self.u32(value as u32) } else { self.u64(value) }
    }

    pub(crate) fn string(self, text: &str) -> Raw {
        self.length(text.len() as u64).bytes(text.as_bytes())
    }

    /// A metadata entry as far as its type.
    pub(crate) fn entry(self, key: &str, kind: u32) -> Raw {
        self.string(key).u32(kind)
    }

    /// Appends a metadata entry up to the first element of an array.
    pub(crate) fn array(self, key: &str, kind: u32, count: u64) -> Raw {
        self.entry(key, 9).u32(kind).length(count)
    }

    /// Appends an entry of the tensor table up to its type: name, number of dimensions and dimensions.
    pub(crate) fn shape(self, name: &str, dims: &[u64]) -> Raw {
        let raw = self.string(name).u32(dims.len() as u32);
        dims.iter().fold(raw, |raw, &dim| raw.length(dim))
    }

    pub(crate) fn tensor(self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Raw {
        self.shape(name, dims).u32(kind).u64(offset)
    }

    /// Appends padding up to the data section, and `data` zero bytes in that section.
    pub(crate) fn data(mut self, data: usize) -> Raw {
        self.bytes.resize(self.bytes.len().next_multiple_of(32) + data, 0);
        self
    }

    /// The file, which is refused with `error` because of what is at the remembered offset.
    pub(crate) fn refused(self, what: &'static str, place: &'static str, error: &'static str) -> Broken {
        Broken { what, file: self.bytes, place, offset: self.at, error }
    }
}
