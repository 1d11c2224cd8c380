//! The head of a model file: its metadata and tensor table, read without the tensors.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cairn_gguf::reader::MAX_HEAD_BYTES;
use cairn_gguf::split::{self, Split};
use cairn_gguf::{Error as GgufError, Gguf, Metadata};

use crate::library::error::Error;

/// Bytes of the first read. Vocabularies of 150,000 tokens fit.
const FIRST_BYTES: u64 = 8 << 20;

/// Head and size of a model.
#[derive(Debug)]
pub struct Head {
    /// Metadata and tensor table.
    pub gguf: Gguf,
    /// Size of the file, or of all files of a split model.
    pub file_bytes: u64,
    /// The files, indexed by [`Tensor::part`](cairn_gguf::Tensor::part).
    pub paths: Vec<PathBuf>,
}

/// Returns the head as the engine reads it: translated, if the file is in Ollama's own layout.
pub(crate) fn as_loaded(gguf: &Gguf) -> Cow<'_, Gguf> {
    cairn_runtime::translated(gguf)
}

/// Returns the chat template in a model's file; empty for none.
pub(crate) fn chat_template(metadata: &Metadata) -> &str {
    metadata.str("tokenizer.chat_template").ok().flatten().unwrap_or_default()
}

/// Reads the head of the model at `path`. For a part of a split model, reads the heads of all parts.
///
/// # Errors
/// [`Error::File`] if a file cannot be read, is not a GGUF file, or other parts are missing.
pub fn read(path: &Path) -> Result<Head, Error> {
    let head = read_one(path)?;
    let failed = |reason: String| Error::File { path: path.to_owned(), reason };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let split = Split::of(&name, &head.gguf).map_err(|error| failed(error.to_string()))?;
    let Some(split) = split else { return Ok(head) };
    let names = split.names(&name, |name| path.with_file_name(name).exists());
    let names = names.map_err(|error| failed(error.to_string()))?;
    let parts = names.into_iter().map(|name| Ok((name.clone(), read_one(&path.with_file_name(&name))?)));
    join(parts.collect::<Result<_, Error>>()?).map_err(failed)
}

/// Joins the heads of a model's parts, in order, each with its name. Returns the reason if they do not fit together.
pub(crate) fn join(named: Vec<(String, Head)>) -> Result<Head, String> {
    let (mut parts, mut file_bytes, mut paths) = (Vec::new(), 0, Vec::new());
    for (name, part) in named {
        parts.push((name, part.gguf));
        file_bytes += part.file_bytes;
        paths.extend(part.paths);
    }
    let gguf = split::join(parts).map_err(|error| error.to_string())?;
    Ok(Head { gguf, file_bytes, paths })
}

/// Reads the head of one file, with larger reads until the head is complete.
pub(crate) fn read_one(path: &Path) -> Result<Head, Error> {
    let failed = |reason: String| Error::File { path: path.to_owned(), reason };
    let io = |error: std::io::Error| failed(error.to_string());
    let found = std::fs::metadata(path).map_err(io)?;
    if found.is_dir() {
        return Err(failed("it is a directory".to_owned()));
    }
    // A pipe or a device has no length, and reading one may never end.
    if !found.is_file() {
        return Err(failed("it is a pipe or a device, and a model must be a file".to_owned()));
    }
    let mut file = File::open(path).map_err(io)?;
    let file_bytes = found.len();
    // One byte more than the longest head lets the reader detect a head that is too long.
    let most = MAX_HEAD_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let mut wanted = FIRST_BYTES;
    loop {
        let missing = wanted.min(file_bytes).saturating_sub(bytes.len() as u64);
        file.by_ref().take(missing).read_to_end(&mut bytes).map_err(io)?;
        match Gguf::parse_header(&bytes, file_bytes) {
            Ok(gguf) => return Ok(Head { gguf, file_bytes, paths: vec![path.to_owned()] }),
            Err(GgufError::Truncated { .. }) if wanted < file_bytes.min(most) => wanted = most.min(4 * wanted),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_error_has_the_path_and_the_reason() {
        let check = |path: &Path, part: &str| {
            let error = read(path).expect_err("the path is not a model").to_string();
            assert!(error.contains(part) && error.contains(&path.display().to_string()), "{error}");
        };
        let folder = tempfile::tempdir().unwrap();
        check(folder.path(), "it is a directory");
        check(&folder.path().join("absent"), "No such file");
        #[cfg(unix)]
        check(Path::new("/dev/zero"), "a pipe or a device");
    }

    #[test]
    fn head_of_a_part_covers_the_whole_model() {
        let mut writer = cairn_gguf::Writer::default();
        writer.set("general.architecture", "llama");
        for name in ["a", "b", "c"] {
            writer.tensor(name, cairn_gguf::DType::F32, &[4], vec![0; 16]).expect("the tensor is sound");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |number: usize| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
        for (number, part) in (1..).zip(cairn_testkit::split(&writer.finish(), 3)) {
            std::fs::write(path(number), part).unwrap();
        }
        let head = read(&path(2)).expect("all parts exist");
        let table: Vec<_> = head.gguf.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.part)).collect();
        assert_eq!(table, [("a", 0), ("b", 1), ("c", 2)], "all tensors");
        assert_eq!(head.gguf.metadata().required_str("general.architecture"), Ok("llama"), "the first part's metadata");
        assert_eq!(head.paths, [1, 2, 3].map(path), "all files");
        let bytes: u64 = head.paths.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
        assert_eq!(head.file_bytes, bytes, "the size of all files");
        for number in [1, 3] {
            std::fs::remove_file(path(number)).unwrap();
        }
        let error = read(&path(2)).expect_err("two parts are missing").to_string();
        let all = "this model has 3 files, of which are missing: m-00001-of-00003.gguf, m-00003-of-00003.gguf";
        assert!(error.contains(all), "{error}");
    }
}
