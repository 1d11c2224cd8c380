//! A model's file, or the files of a model in parts: opened once, mapped, and watched for as long as they are in use.
//!
//! Weights are used where they lie in the mappings. A file that is overwritten or cut short under its mapping cannot be
//! prevented on most systems, so [`ModelFile::check`] is asked after each step and before its results are used. A file that is
//! deleted, or replaced by renaming another over it, stays as it was for those who have it open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_gguf::split::{self, Split, SplitError};
use cairn_gguf::{Gguf, Tensor};
use cairn_tensor::Bytes;

use crate::error::{OpenError, Vanished};
use part::Part;

mod part;
#[cfg(test)]
mod sparse_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod tests;

/// A model whose head is read and whose tensors lie in memory.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    gguf: Gguf,
    /// By [`Tensor::part`]; at least one.
    parts: Vec<Part>,
}

impl ModelFile {
    /// Maps a file and reads its head; tensors are not read. A part of a split model brings in all the others, which lie
    /// beside it under names that differ in the number alone.
    ///
    /// # Errors
    /// Where the path is no regular file, cannot be read, or is not a whole GGUF file, and where parts are missing or do not
    /// belong together.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (part, gguf) = Part::open(path)?;
        let name = name_of(path);
        let failed = |source: SplitError| OpenError::Split { path: path.to_path_buf(), source: source.into() };
        let Some(split) = Split::of(&name, &gguf).map_err(failed)? else {
            return Ok(Self { path: path.to_path_buf(), gguf, parts: vec![part] });
        };
        let names = split.names(&name, |name| path.with_file_name(name).exists()).map_err(failed)?;
        let mut opened = Some((part, gguf));
        let parts = (0..).zip(&names).map(|(number, name)| match opened.take_if(|_| number == split.number) {
            Some(this) => Ok(this),
            None => Part::open(&path.with_file_name(name)),
        });
        Self::join(path, parts.collect::<Result<_, _>>()?)
    }

    /// The same for a model whose files are known, in any order: an Ollama manifest lists them by their digests.
    ///
    /// # Errors
    /// As [`ModelFile::open`], where files are missing, are not parts, or do not belong together.
    pub fn open_parts(paths: &[PathBuf]) -> Result<Self, OpenError> {
        let mut parts = paths.iter().map(|path| Part::open(path)).collect::<Result<Vec<_>, _>>()?;
        if parts.len() == 1
            && let Some((part, gguf)) = parts.pop_if(|(_, gguf)| gguf.metadata().get("split.count").is_none())
        {
            return Ok(Self { path: part.path.clone(), gguf, parts: vec![part] });
        }
        let number = |(part, gguf): &(Part, Gguf)| match Split::of(&name_of(&part.path), gguf) {
            Ok(Some(split)) => split.number,
            _ => u32::MAX,
        };
        parts.sort_by_key(number);
        let path = parts.first().map(|(part, _)| part.path.clone()).ok_or(OpenError::NoFiles)?;
        Self::join(&path, parts)
    }

    /// A model that is part of the program.
    ///
    /// # Errors
    /// Where the bytes are not a whole GGUF file; `name` takes the path's place in the text.
    pub fn builtin(name: &str, bytes: &'static [u8]) -> Result<Self, OpenError> {
        let path = PathBuf::from(name);
        let gguf = Gguf::parse(bytes).map_err(|source| OpenError::Gguf { path: path.clone(), source })?;
        let part = Part { path: path.clone(), bytes: Bytes::new(Arc::new(bytes)), mapped: None };
        Ok(Self { path, gguf, parts: vec![part] })
    }

    /// One model out of its parts, which are in order.
    fn join(path: &Path, parts: Vec<(Part, Gguf)>) -> Result<Self, OpenError> {
        let named = |(part, gguf): (Part, Gguf)| {
            let name = name_of(&part.path);
            (part, (name, gguf))
        };
        let (parts, heads) = parts.into_iter().map(named).unzip();
        let gguf = split::join(heads)
            .map_err(|source| OpenError::Split { path: path.to_path_buf(), source: source.into() })?;
        Ok(Self { path: path.to_path_buf(), gguf, parts })
    }

    /// Where the model was opened, or the name of a built-in one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The paths of all its files, in order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Metadata and tensor table.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// The bytes of all its files together.
    pub fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes.len() as u64).sum()
    }

    /// The bytes of one of its tensors.
    ///
    /// # Panics
    /// When the tensor is another model's.
    pub fn tensor_bytes(&self, tensor: &Tensor) -> Bytes {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        let part = self.parts.get(tensor.part);
        let bytes = part.and_then(|part| part.bytes.slice(range));
        bytes.expect("the reader checked that every tensor lies in its file")
    }

    /// Says whether the files are still what was opened. Costs one `fstat` for each.
    ///
    /// # Errors
    /// Where a page was gone when it was read, or a file's size or time of change is another.
    pub fn check(&self) -> Result<(), Vanished> {
        self.parts.iter().try_for_each(Part::check)
    }
}

/// A file's name, for what tells parts apart and for errors.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
