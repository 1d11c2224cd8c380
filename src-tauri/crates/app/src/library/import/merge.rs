//! Merges a split model into one file: the metadata of the first part, the tensors of all.
//!
//! A manifest with several parts could only be read by Cairn: models of Ollama have one file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use cairn_gguf::Writer;
use cairn_store::{ImportedBlob, LibraryWriter, Progress};

use crate::library::error::Error;
use crate::library::head::Head;

/// Bytes per read.
const CHUNK_BYTES: usize = 1 << 20;

/// Imports the parts of a model as one file. `path` is the part that the client named.
pub(crate) fn import_merged(
    writer: &LibraryWriter<'_>,
    head: &Head,
    path: &Path,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<ImportedBlob, Error> {
    let merged = merged(head).map_err(|error| Error::File { path: path.to_owned(), reason: error.to_string() })?;
    let (_, size_bytes) = merged.head();
    let reason = format!("its {} files are merged", head.paths.len());
    Ok(writer.import_generated(path, size_bytes, &reason, &mut |mut out| merged.write_to(&mut out), watch)?)
}

fn merged(head: &Head) -> Result<Writer<'_>, cairn_gguf::WriteError> {
    let mut writer = Writer::new(head.gguf.alignment);
    let of_parts = |key: &str| key.starts_with("split.") || key == "general.alignment";
    for (key, value) in head.gguf.metadata().iter().filter(|(key, _)| !of_parts(key)) {
        writer.set(key, value.clone());
    }
    for tensor in head.gguf.tensors() {
        let path = &head.paths[tensor.part];
        let (offset, bytes) = (tensor.offset, tensor.bytes);
        writer
            .tensor_from(tensor.name.clone(), tensor.dtype, &tensor.dims, move |out| copy(path, offset, bytes, out))?;
    }
    Ok(writer)
}

/// Copies a range of a file.
fn copy(path: &Path, offset: u64, bytes: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut file = file.take(bytes);
    let mut piece = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            count => out.write_all(&piece[..count])?,
        }
    }
}
