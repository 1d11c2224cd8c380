//! Contents that somebody sends, a piece at a time, under the digest that they are said to have.

use cairn_disk::Draft;
use sha2::Digest as _;

use super::{LibraryWriter, WriteError};
use crate::{Digest, Layer, LayerKind};

/// How much is written before the disk is asked again for room: others write to it, and not every sender says how much comes.
const ASK_EVERY_BYTES: u64 = 64 << 20;

/// Contents that are on their way. Dropping them leaves nothing.
pub struct Receiving<'a> {
    writer: &'a LibraryWriter<'a>,
    draft: Box<dyn Draft>,
    hash: sha2::Sha256,
    digest: Digest,
    size_bytes: u64,
    /// How much was there when the disk was last asked for room.
    asked_at_bytes: u64,
}

impl LibraryWriter<'_> {
    /// Makes room for contents of that digest; of `size_bytes`, where that is known.
    ///
    /// # Errors
    /// When they do not fit, or the disk refuses.
    pub fn receive(&self, digest: Digest, size_bytes: Option<u64>) -> Result<Receiving<'_>, WriteError> {
        self.check_room(size_bytes.unwrap_or(0))?;
        let draft = self.draft()?;
        Ok(Receiving { writer: self, draft, hash: sha2::Sha256::new(), digest, size_bytes: 0, asked_at_bytes: 0 })
    }
}

impl Receiving<'_> {
    /// Takes the next piece.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes - self.asked_at_bytes >= ASK_EVERY_BYTES {
            self.writer.check_room(0)?;
            self.asked_at_bytes = self.size_bytes;
        }
        Ok(self.draft.write(bytes)?)
    }

    /// Ends the contents, which from now on are in the library, if they are what they were said to be.
    ///
    /// # Errors
    /// [`WriteError::OtherContents`], or when the disk refuses; nothing stays then.
    pub fn keep(self) -> Result<(), WriteError> {
        let found = Digest::of_hash(self.hash);
        if found != self.digest {
            return Err(WriteError::OtherContents { named: self.digest, found });
        }
        let layer = Layer { kind: LayerKind::Model, digest: found, size_bytes: self.size_bytes };
        self.writer.keep(self.draft, &layer, &mut |_| true).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use cairn_disk::RealDisk;

    use super::*;
    use crate::Library;

    #[test]
    fn only_what_has_the_digest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
        let files = || std::fs::read_dir(folder.path().join("blobs")).unwrap().count();
        let digest = Digest::of(b"abcd");
        let send = |pieces: &[&str]| {
            let mut receiving = writer.receive(digest, None).unwrap();
            pieces.iter().for_each(|piece| receiving.write(piece.as_bytes()).unwrap());
            receiving.keep().map_err(|error| error.to_string())
        };
        let error = send(&["abc"]).expect_err("a byte is missing");
        let found = Digest::of(b"abc");
        assert_eq!(error, format!("digest mismatch, expected \"{digest}\", got \"{found}\""), "as Ollama says it");
        assert_eq!(files(), 0, "nothing is left");
        drop(writer.receive(digest, Some(4)).unwrap());
        assert_eq!(files(), 0, "nor of what nobody ended");
        send(&["ab", "", "cd"]).unwrap();
        assert_eq!(std::fs::read(library.blob_path(&digest)).unwrap(), b"abcd", "in whatever pieces");
        send(&["abcd"]).expect("again changes nothing");
        assert_eq!(files(), 1, "one file");
        let error = writer.receive(digest, Some(u64::MAX)).map(drop).expect_err("no disk has that much room");
        assert!(matches!(error, WriteError::NoSpace { .. }), "{error}");
    }
}
