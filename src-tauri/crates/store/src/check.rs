//! Checking contents against their names: whoever reads all bytes can tell damage from soundness, because a name is the
//! SHA-256 of what it names.

use std::fs::{self, File};
use std::io;

use crate::write::digest_of;
use crate::{Digest, Library};

/// What is wrong with contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// There is no such file.
    Missing,
    /// It has another length than a manifest says.
    Length {
        /// Bytes of the file.
        found_bytes: u64,
        /// Bytes that a manifest says.
        expected_bytes: u64,
    },
    /// Its bytes are others than its name says.
    Contents {
        /// The digest of what is there.
        found: Digest,
    },
    /// The system does not let us read it, for this reason.
    Unreadable(String),
}

impl std::fmt::Display for Flaw {
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
    /// Reads the contents of a digest, `expected_bytes` of them if a manifest says so, and says what is wrong with them.
    /// `watch` is told how many bytes were read and says whether to go on; without that the answer is the last `None`.
    pub fn check(
        &self,
        digest: &Digest,
        expected_bytes: Option<u64>,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Option<Result<(), Flaw>> {
        let path = self.blob_path(digest);
        let unread = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Flaw::Missing,
            _ => Flaw::Unreadable(error.to_string()),
        };
        let opened = fs::metadata(&path).and_then(|found| match found.is_file() {
            true => Ok((found.len(), File::open(&path)?)),
            false => Err(io::Error::other("it is no file")),
        });
        let (found_bytes, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return Some(Err(unread(error))),
        };
        if let Some(expected_bytes) = expected_bytes.filter(|expected| *expected != found_bytes) {
            return Some(Err(Flaw::Length { found_bytes, expected_bytes }));
        }
        match digest_of(&file, watch) {
            Ok(Some(found)) if found == *digest => Some(Ok(())),
            Ok(Some(found)) => Some(Err(Flaw::Contents { found })),
            Ok(None) => None,
            Err(error) => Some(Err(unread(error))),
        }
    }

    /// The digests of all contents that are here, whether or not a model has them, in order. Other files are left out.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn contents(&self) -> io::Result<Vec<Digest>> {
        let mut digests = Vec::new();
        let entries = match fs::read_dir(self.blobs()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(digests),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let digest = name.to_str().and_then(|name| name.parse::<Digest>().ok());
            // An old spelling, with a colon, is another file.
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
    fn every_flaw_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        fs::create_dir_all(library.blobs()).unwrap();
        let digest = Digest::of(b"sound");
        let path = library.blob_path(&digest);
        let check = |expected_bytes, expected: Result<(), Flaw>| {
            assert_eq!(library.check(&digest, expected_bytes, &mut |_| true), Some(expected));
        };
        check(Some(5), Err(Flaw::Missing));
        fs::write(&path, "sound").unwrap();
        check(Some(5), Ok(()));
        check(None, Ok(()));
        check(Some(6), Err(Flaw::Length { found_bytes: 5, expected_bytes: 6 }));
        assert_eq!(library.check(&digest, None, &mut |_| false), None, "interrupted");
        fs::write(&path, "Sound").unwrap();
        check(Some(5), Err(Flaw::Contents { found: Digest::of(b"Sound") }));
        assert_eq!(library.contents().unwrap(), [digest], "it is there");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        check(None, Err(Flaw::Unreadable("it is no file".to_owned())));
    }
}
