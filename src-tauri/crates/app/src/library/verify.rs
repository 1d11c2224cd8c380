//! Verify: reads every tensor of a model file and finds values that are not finite.
//!
//! A damaged scale makes a whole block infinite or NaN, so decoding finds it. Tensors are read in pieces of whole
//! blocks, because a file may be larger than memory.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use cairn_gguf::Tensor;

use crate::library::error::Error;
use crate::library::head;

/// Elements per read: a multiple of every type's block.
const PIECE_ELEMENTS: usize = 1 << 16;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Tensors with values that are not finite.
    pub damaged: Vec<DamagedTensor>,
}

/// A tensor with values that are not finite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedTensor {
    /// Name of the tensor.
    pub name: String,
    /// Type of the tensor, for example `Q4_K`.
    pub kind: String,
    /// Number of elements.
    pub elements: u64,
    /// Number of infinite or NaN elements.
    pub not_finite: u64,
    /// Index of the first such element.
    pub first: u64,
    /// Offset in the file of the block with the first such element.
    pub offset: u64,
}

impl fmt::Display for DamagedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, elements, not_finite, first, offset } = self;
        let name = name.escape_debug();
        write!(f, "tensor `{name}` ({kind}): {not_finite} of {elements} numbers are not finite, ")?;
        write!(f, "the first is number {first}, in the block at offset {offset}")
    }
}

/// Reads the tensors of the model at `path`, in all its parts. Passes the bytes read and the total to `watch`.
///
/// # Errors
/// [`Error::File`] if a file cannot be read or is not a GGUF file.
pub fn verify(path: &Path, watch: &mut dyn FnMut(u64, u64)) -> Result<Verified, Error> {
    let failed = |reason: String| Error::File { path: path.to_owned(), reason };
    let head = head::read(path)?;
    let files = head.paths.iter().map(File::open).collect::<Result<Vec<_>, _>>();
    let mut files = files.map_err(|error| failed(error.to_string()))?;
    let tensors = head.gguf.tensors();
    let total: u64 = tensors.iter().map(|tensor| tensor.bytes).sum();
    let mut done = 0;
    let mut damaged = Vec::new();
    for tensor in tensors {
        let found = read(&mut files[tensor.part], tensor, &mut |bytes| {
            done += bytes;
            watch(done, total);
        });
        let found = found.map_err(|error| failed(format!("tensor `{}`: {error}", tensor.name.escape_debug())))?;
        damaged.extend(found);
    }
    Ok(Verified { tensors: tensors.len(), bytes: total, damaged })
}

fn read(file: &mut File, tensor: &Tensor, watch: &mut dyn FnMut(u64)) -> std::io::Result<Option<DamagedTensor>> {
    file.seek(SeekFrom::Start(tensor.offset))?;
    let (dtype, elements) = (tensor.dtype, tensor.elements());
    let mut values = vec![0.0; PIECE_ELEMENTS];
    let mut bytes = vec![0; dtype.row_bytes(PIECE_ELEMENTS)];
    let (mut at, mut not_finite, mut first) = (0, 0, None);
    while at < elements {
        let count = usize::try_from(elements - at).unwrap_or(usize::MAX).min(PIECE_ELEMENTS);
        let (bytes, values) = (&mut bytes[..dtype.row_bytes(count)], &mut values[..count]);
        file.read_exact(bytes)?;
        dtype.decode(bytes, values);
        for (index, _) in values.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
            not_finite += 1;
            first.get_or_insert(at + index as u64);
        }
        watch(bytes.len() as u64);
        at += count as u64;
    }
    Ok(first.map(|first| DamagedTensor {
        name: tensor.name.clone(),
        kind: dtype.to_string(),
        elements,
        not_finite,
        first,
        offset: tensor.offset + first / dtype.block() as u64 * dtype.block_bytes() as u64,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_gguf::DType;

    /// Verifies a file of one changed tensor. `expected` has the index and number of values that are not finite.
    fn check(dtype: DType, change: impl Fn(&mut [u8]), expected: Option<(u64, u64)>) {
        const ELEMENTS: usize = 99_840;
        let mut blocks = Vec::new();
        dtype.encode(&[0.5; ELEMENTS], &mut blocks).unwrap();
        change(&mut blocks);
        let mut writer = cairn_gguf::Writer::new(32);
        writer.set("general.architecture", "llama");
        writer.tensor("a.weight", dtype, &[256, ELEMENTS as u64 / 256], blocks).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.gguf");
        std::fs::write(&path, writer.finish()).unwrap();
        let mut seen = (0, 0);
        let verified = verify(&path, &mut |done, total| seen = (done, total)).unwrap();
        assert_eq!(verified.tensors, 1, "the number of tensors");
        assert!(seen.0 == seen.1 && seen.0 == verified.bytes, "progress is complete: {seen:?}");
        let found = verified.damaged.first().map(|damaged| (damaged.first, damaged.not_finite));
        assert_eq!(found, expected, "{dtype}: {:?}", verified.damaged);
    }

    #[test]
    fn verify_finds_values_that_are_not_finite() {
        check(DType::F32, |_| {}, None);
        check(DType::Q8_0, |_| {}, None);
        check(DType::F32, |b| b[4 * 99_839..].copy_from_slice(&f32::NAN.to_le_bytes()), Some((99_839, 1)));
        check(DType::F32, |b| b[4 * 70_000..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes()), Some((70_000, 1)));
        // The scale is the first field of a Q8_0 block. 0x7e00 is NaN.
        check(DType::Q8_0, |b| b[34 * 2_100..][..2].copy_from_slice(&[0x00, 0x7e]), Some((32 * 2_100, 32)));
    }
}
