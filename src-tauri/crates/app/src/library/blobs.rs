//! Blobs: files that clients upload before they create a model from them.

use cairn_disk::RealDisk;
use cairn_store::{Digest, LibraryWriter};
use tokio::sync::{mpsc, oneshot};

use crate::library::error::Error;
use crate::library::handle::ModelLibrary;

/// Capacity of the channel of pieces. A full channel delays the client.
const PIECE_CAPACITY: usize = 8;

/// An upload in progress. The blob is in the library when [`Upload::end`] returns. Dropping it leaves nothing.
#[derive(Debug)]
pub struct Upload<P> {
    pieces: mpsc::Sender<P>,
    done: oneshot::Receiver<Result<(), Error>>,
}

impl ModelLibrary {
    /// Size of a blob of Cairn's library, if it has the blob.
    ///
    /// # Errors
    /// [`Error::Digest`] if the digest is invalid.
    pub fn blob_size(&self, digest: &str) -> Result<Option<u64>, Error> {
        let path = self.catalog.own_library().blob_path(&digest.parse()?);
        Ok(path.metadata().ok().filter(|found| found.is_file()).map(|found| found.len()))
    }

    /// Starts an upload of a blob, of `size_bytes` if known. A separate thread writes it, because slow clients would
    /// occupy all threads of the blocking pool.
    ///
    /// # Errors
    /// [`Error::Digest`] if the digest is invalid. [`Upload::end`] returns other errors.
    pub fn upload<P>(&self, digest: &str, size_bytes: Option<u64>) -> Result<Upload<P>, Error>
    where
        P: AsRef<[u8]> + Send + 'static,
    {
        let digest: Digest = digest.parse()?;
        let (pieces, mut receiver) = mpsc::channel::<P>(PIECE_CAPACITY);
        let (sender, done) = oneshot::channel();
        let library = self.clone();
        let mut receive = move || {
            let reserve_bytes = library.settings.downloads.reserve_bytes();
            let writer = LibraryWriter::open(library.catalog.own_library(), &RealDisk)?.with_reserve(reserve_bytes);
            let mut receiving = writer.receive(digest, size_bytes)?;
            while let Some(piece) = receiver.blocking_recv() {
                receiving.write(piece.as_ref())?;
            }
            // After an early disconnect the digest does not match.
            Ok(receiving.finish()?)
        };
        // The client may have disconnected; that is not an error.
        let spawned = std::thread::Builder::new().name("upload".to_owned()).spawn(move || drop(sender.send(receive())));
        spawned.map_err(Error::NoThread)?;
        Ok(Upload { pieces, done })
    }
}

impl<P: Send + 'static> Upload<P> {
    /// Sends the next piece. Returns whether the upload is still open.
    pub async fn write(&self, piece: P) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until the blob is in the library.
    ///
    /// # Errors
    /// If the digest does not match, the blob does not fit, or on a disk error. Nothing has changed then.
    pub async fn end(self) -> Result<(), Error> {
        drop(self.pieces);
        self.done.await.expect("writing does not panic")
    }
}
