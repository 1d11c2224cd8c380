//! A model's file, or the files of a split model: opened once, mapped, and checked for changes while in use.
//!
//! Weights are read directly from the mapping. Most systems cannot prevent that a mapped file is overwritten or
//! truncated, so [`ModelFile::check`] must be called after each step before its results are used. A file that is
//! deleted or replaced by a rename does not change for processes that have it open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_gguf::split::{self, Split, SplitError};
use cairn_gguf::{Gguf, Tensor};
use cairn_tensor::Bytes;

use crate::compat;
use crate::error::{FileChangedError, OpenError};
use part::Part;

mod part;
#[cfg(test)]
mod sparse_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod tests;

/// Open model file with parsed header and mapped tensors.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    gguf: Gguf,
    /// Head of the vision tower in a file of Ollama's layout.
    tower: Option<Gguf>,
    /// By [`Tensor::part`]; at least one.
    parts: Vec<Part>,
}

impl ModelFile {
    /// Maps a file and reads its header; tensors are not read. For a part of a split model, opens all other parts too,
    /// which must be in the same folder with names that differ only in the number.
    ///
    /// # Errors
    /// When the path is not a regular file, cannot be read, or is not a complete GGUF file, when parts are missing or
    /// belong to different models, and when a file in Ollama's layout cannot be translated.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (part, gguf) = Part::open(path)?;
        let name = file_name(path);
        let failed = |source: SplitError| OpenError::Split { path: path.to_path_buf(), source: source.into() };
        let Some(split) = Split::of(&name, &gguf).map_err(failed)? else {
            return Self::new(path.to_path_buf(), gguf, vec![part]);
        };
        let names = split.names(&name, |name| path.with_file_name(name).exists()).map_err(failed)?;
        let mut opened = Some((part, gguf));
        let parts = (0..).zip(&names).map(|(number, name)| match opened.take_if(|_| number == split.number) {
            Some(this) => Ok(this),
            None => Part::open(&path.with_file_name(name)),
        });
        Self::join(path, parts.collect::<Result<_, _>>()?)
    }

    /// Opens a model from all its files, in any order. An Ollama manifest lists them by digest.
    ///
    /// # Errors
    /// As [`ModelFile::open`].
    pub fn open_parts(paths: &[PathBuf]) -> Result<Self, OpenError> {
        let mut parts = paths.iter().map(|path| Part::open(path)).collect::<Result<Vec<_>, _>>()?;
        if parts.len() == 1
            && let Some((part, gguf)) = parts.pop_if(|(_, gguf)| gguf.metadata().get("split.count").is_none())
        {
            return Self::new(part.path.clone(), gguf, vec![part]);
        }
        let number = |(part, gguf): &(Part, Gguf)| match Split::of(&file_name(&part.path), gguf) {
            Ok(Some(split)) => split.number,
            _ => u32::MAX,
        };
        parts.sort_by_key(number);
        let path = parts.first().map(|(part, _)| part.path.clone()).ok_or(OpenError::NoFiles)?;
        Self::join(&path, parts)
    }

    /// Opens a built-in model.
    ///
    /// # Errors
    /// When the bytes are not a complete GGUF file. The message contains `name` as the path.
    pub fn builtin(name: &str, bytes: &'static [u8]) -> Result<Self, OpenError> {
        let path = PathBuf::from(name);
        let gguf = Gguf::parse(bytes).map_err(|source| OpenError::Gguf { path: path.clone(), source })?;
        let part = Part { path: path.clone(), bytes: Bytes::new(Arc::new(bytes)), mapped: None };
        Self::new(path, gguf, vec![part])
    }

    /// Joins parts, which are in order, to one model.
    fn join(path: &Path, parts: Vec<(Part, Gguf)>) -> Result<Self, OpenError> {
        let named = |(part, gguf): (Part, Gguf)| {
            let name = file_name(&part.path);
            (part, (name, gguf))
        };
        let (parts, heads) = parts.into_iter().map(named).unzip();
        let gguf = split::join(heads)
            .map_err(|source| OpenError::Split { path: path.to_path_buf(), source: source.into() })?;
        Self::new(path.to_path_buf(), gguf, parts)
    }

    /// Creates a model of its head, which may be in Ollama's layout.
    fn new(path: PathBuf, gguf: Gguf, parts: Vec<Part>) -> Result<Self, OpenError> {
        let translated = compat::tower(&gguf).and_then(|tower| Ok((tower, compat::translate(gguf)?)));
        match translated {
            Ok((tower, gguf)) => Ok(Self { path, gguf, tower, parts }),
            Err(error) => Err(OpenError::Layout { path, source: Box::new(error) }),
        }
    }

    /// Returns the path that was opened, or the name of a built-in model.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths of all files, in order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Returns metadata and tensor table, in the layout of llama.cpp.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// Returns metadata and tensor table of the vision tower: those of a file of a tower alone, or of the tower in a file of
    /// Ollama's layout.
    pub fn tower(&self) -> Option<&Gguf> {
        let is_tower = || compat::is_tower(self.gguf.metadata());
        self.tower.as_ref().or_else(|| is_tower().then_some(&self.gguf))
    }

    /// Returns the total size of all files.
    pub fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes.len() as u64).sum()
    }

    /// Returns the bytes of a tensor.
    ///
    /// # Panics
    /// When the tensor belongs to another model.
    pub fn tensor_bytes(&self, tensor: &Tensor) -> Bytes {
        let range = tensor.offset as usize..(tensor.offset + tensor.bytes) as usize;
        let part = self.parts.get(tensor.part);
        let bytes = part.and_then(|part| part.bytes.slice(range));
        bytes.expect("the parser checked that every tensor is inside its file")
    }

    /// Checks that the files are unchanged. Costs one `fstat` per file.
    ///
    /// # Errors
    /// When a page could not be read, or a file's size or modification time has changed.
    pub fn check(&self) -> Result<(), FileChangedError> {
        self.parts.iter().try_for_each(Part::check)
    }
}

/// Returns the file name of a path, for part numbers and errors.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
