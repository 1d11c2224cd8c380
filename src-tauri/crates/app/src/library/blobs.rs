//! Blobs: contents that clients send before they ask for a model to be made of them.

use cairn_disk::RealDisk;
use cairn_store::{Digest, LibraryWriter};
use tokio::sync::{mpsc, oneshot};

use crate::library::error::Error;
use crate::library::handle::ModelLibrary;

/// Pieces that may wait for a slow disk before whoever sends them waits too.
const WAITING_PIECES: usize = 8;

/// Contents that are being sent. They are in the library once [`Upload::end`] says so; dropping it leaves nothing.
#[derive(Debug)]
pub struct Upload<P> {
    pieces: mpsc::Sender<P>,
    done: oneshot::Receiver<Result<(), Error>>,
}

impl ModelLibrary {
    /// Whether our library has contents of that digest.
    ///
    /// # Errors
    /// [`Error::Digest`] for what is no digest.
    pub fn has_blob(&self, digest: &str) -> Result<bool, Error> {
        let path = self.catalog.own_library().blob_path(&digest.parse()?);
        Ok(path.metadata().is_ok_and(|found| found.is_file()))
    }

    /// Takes contents of that digest; of `size_bytes`, where that is known. They are written by a thread of their own: it lives for as
    /// long as the client takes to send them, and those that work is shared out to would soon all be waiting for slow clients.
    ///
    /// # Errors
    /// [`Error::Digest`] for what is no digest. All else is told at the end.
    pub fn upload<P>(&self, digest: &str, size_bytes: Option<u64>) -> Result<Upload<P>, Error>
    where
        P: AsRef<[u8]> + Send + 'static,
    {
        let digest: Digest = digest.parse()?;
        let (pieces, mut receiver) = mpsc::channel::<P>(WAITING_PIECES);
        let (tell, done) = oneshot::channel();
        let library = self.clone();
        let mut receive = move || {
            let reserve_bytes = library.settings.downloads.reserve_bytes();
            let writer = LibraryWriter::open(library.catalog.own_library(), &RealDisk)?.with_reserve(reserve_bytes);
            let mut receiving = writer.receive(digest, size_bytes)?;
            while let Some(piece) = receiver.blocking_recv() {
                receiving.write(piece.as_ref())?;
            }
            // Where the sender went away early, the digest is another one.
            Ok(receiving.finish()?)
        };
        // Whoever sends may have left.
        let spawned = std::thread::Builder::new().name("upload".to_owned()).spawn(move || drop(tell.send(receive())));
        spawned.map_err(Error::NoThread)?;
        Ok(Upload { pieces, done })
    }
}

impl<P: Send + 'static> Upload<P> {
    /// Hands on the next piece. Says whether there is any use in a further one.
    pub async fn write(&self, piece: P) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until the contents are in the library.
    ///
    /// # Errors
    /// When they are not what they were said to be, do not fit, or the disk refuses; nothing has changed then.
    pub async fn end(self) -> Result<(), Error> {
        drop(self.pieces);
        self.done.await.expect("writing does not panic")
    }
}
