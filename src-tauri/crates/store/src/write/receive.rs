//! Blobs that a client sends in pieces, under an expected digest.

use cairn_disk::TempFile;
use sha2::Digest as _;

use super::{LibraryWriter, WriteError};
use crate::{Digest, Layer, LayerKind};

/// Interval of checks for free space: other programs write to the disk too, and not every client announces the size.
const CHECK_EVERY_BYTES: u64 = 64 << 20;

/// Blob that is being received. Dropping it removes what was received.
pub struct BlobReceiver<'a> {
    writer: &'a LibraryWriter<'a>,
    temp_file: Box<dyn TempFile>,
    hash: sha2::Sha256,
    digest: Digest,
    size_bytes: u64,
    /// `size_bytes` at the last check for free space.
    checked_at_bytes: u64,
}

impl LibraryWriter<'_> {
    /// Starts to receive a blob. Without `size_bytes` only the reserve is checked.
    ///
    /// # Errors
    /// If the blob does not fit, or on disk errors.
    pub fn receive(&self, digest: Digest, size_bytes: Option<u64>) -> Result<BlobReceiver<'_>, WriteError> {
        self.check_free_space(size_bytes.unwrap_or(0))?;
        let temp_file = self.create_temp_file()?;
        Ok(BlobReceiver {
            writer: self,
            temp_file,
            hash: sha2::Sha256::new(),
            digest,
            size_bytes: 0,
            checked_at_bytes: 0,
        })
    }
}

impl BlobReceiver<'_> {
    /// Appends the next piece.
    ///
    /// # Errors
    /// If the disk is full, or on disk errors.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes - self.checked_at_bytes >= CHECK_EVERY_BYTES {
            self.writer.check_free_space(0)?;
            self.checked_at_bytes = self.size_bytes;
        }
        Ok(self.temp_file.write(bytes)?)
    }

    /// Adds the blob to the library if it has the expected digest.
    ///
    /// # Errors
    /// [`WriteError::DigestMismatch`] or a disk error. Nothing is added then.
    pub fn finish(self) -> Result<(), WriteError> {
        let found = Digest::of_hash(self.hash);
        if found != self.digest {
            return Err(WriteError::DigestMismatch { expected: self.digest, found });
        }
        let layer = Layer { kind: LayerKind::Model, digest: found, size_bytes: self.size_bytes };
        self.writer.persist_blob(self.temp_file, &layer, &mut |_| true).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use cairn_disk::RealDisk;

    use super::*;
    use crate::Library;

    #[test]
    fn receiver_keeps_only_a_blob_with_the_expected_digest() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
        let files = || std::fs::read_dir(folder.path().join("blobs")).unwrap().count();
        let digest = Digest::of(b"abcd");
        let send = |pieces: &[&str]| {
            let mut receiver = writer.receive(digest, None).unwrap();
            pieces.iter().for_each(|piece| receiver.write(piece.as_bytes()).unwrap());
            receiver.finish().map_err(|error| error.to_string())
        };
        let error = send(&["abc"]).expect_err("a byte is missing");
        let found = Digest::of(b"abc");
        assert_eq!(error, format!("digest mismatch, expected \"{digest}\", got \"{found}\""), "same text as Ollama");
        assert_eq!(files(), 0, "nothing remains");
        drop(writer.receive(digest, Some(4)).unwrap());
        assert_eq!(files(), 0, "a dropped receiver leaves nothing");
        send(&["ab", "", "cd"]).unwrap();
        assert_eq!(std::fs::read(library.blob_path(&digest)).unwrap(), b"abcd", "pieces are joined");
        send(&["abcd"]).expect("sending it again is no error");
        assert_eq!(files(), 1, "one file");
        let error = writer.receive(digest, Some(u64::MAX)).map(drop).expect_err("no disk is that large");
        assert!(matches!(error, WriteError::NoSpace { .. }), "{error}");
    }
}
