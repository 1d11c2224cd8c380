//! Verification of blobs against their names: a blob's name is the SHA-256 of its bytes.

use std::fs::{self, File};
use std::io;

use crate::hash::hash_file;
use crate::{Digest, Library};

/// Defect of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobDefect {
    /// The file does not exist.
    Missing,
    /// The file's length differs from the manifest.
    Length {
        /// Length of the file.
        found_bytes: u64,
        /// Length in the manifest.
        expected_bytes: u64,
    },
    /// The digest of the bytes differs from the name.
    Contents {
        /// Digest of the bytes.
        found: Digest,
    },
    /// The file cannot be read, with the reason.
    Unreadable(String),
}

impl std::fmt::Display for BlobDefect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Length { found_bytes, expected_bytes } => {
                write!(f, "has {found_bytes} bytes where its manifest says {expected_bytes}")
            }
            Self::Contents { found } => write!(f, "is damaged: its bytes have the digest {found}"),
            Self::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
        }
    }
}

impl Library {
    /// Reads a blob and compares it with its digest, and its length with `expected_bytes`. `on_progress` gets the number of bytes
    /// read and returns whether to continue. Returns `None` if it returned `false`.
    pub fn verify_blob(
        &self,
        digest: &Digest,
        expected_bytes: Option<u64>,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Result<(), BlobDefect>> {
        let path = self.blob_path(digest);
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => BlobDefect::Missing,
            _ => BlobDefect::Unreadable(error.to_string()),
        };
        let opened = fs::metadata(&path).and_then(|metadata| match metadata.is_file() {
            true => Ok((metadata.len(), File::open(&path)?)),
            false => Err(io::Error::other("it is no file")),
        });
        let (found_bytes, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return Some(Err(unreadable(error))),
        };
        if let Some(expected_bytes) = expected_bytes.filter(|expected| *expected != found_bytes) {
            return Some(Err(BlobDefect::Length { found_bytes, expected_bytes }));
        }
        match hash_file(&file, on_progress) {
            Ok(Some(found)) if found == *digest => Some(Ok(())),
            Ok(Some(found)) => Some(Err(BlobDefect::Contents { found })),
            Ok(None) => None,
            Err(error) => Some(Err(unreadable(error))),
        }
    }

    /// Returns the digests of all blobs in order, also of those that no model references. Other files are ignored.
    ///
    /// # Errors
    /// If the folder exists and cannot be read.
    pub fn blob_digests(&self) -> io::Result<Vec<Digest>> {
        let mut digests = Vec::new();
        let entries = match fs::read_dir(self.blobs()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(digests),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let digest = name.to_str().and_then(|name| name.parse::<Digest>().ok());
            // The old spelling with a colon is another file.
            digests.extend(digest.filter(|digest| *name == *digest.file_name()));
        }
        digests.sort_unstable();
        Ok(digests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_blob_reports_every_defect() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        fs::create_dir_all(library.blobs()).unwrap();
        let digest = Digest::of(b"sound");
        let path = library.blob_path(&digest);
        let check = |expected_bytes, expected: Result<(), BlobDefect>| {
            assert_eq!(library.verify_blob(&digest, expected_bytes, &mut |_| true), Some(expected));
        };
        check(Some(5), Err(BlobDefect::Missing));
        fs::write(&path, "sound").unwrap();
        check(Some(5), Ok(()));
        check(None, Ok(()));
        check(Some(6), Err(BlobDefect::Length { found_bytes: 5, expected_bytes: 6 }));
        assert_eq!(library.verify_blob(&digest, None, &mut |_| false), None, "cancelled");
        fs::write(&path, "Sound").unwrap();
        check(Some(5), Err(BlobDefect::Contents { found: Digest::of(b"Sound") }));
        assert_eq!(library.blob_digests().unwrap(), [digest], "the damaged blob is listed");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        check(None, Err(BlobDefect::Unreadable("it is no file".to_owned())));
    }
}
