//! Contents that another library of this machine has: taken from there, they need not be fetched.
//!
//! Those libraries are only read, and every byte is checked on the way, so that what is damaged there is fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_disk::RealDisk;
use cairn_registry::Downloads;
use cairn_store::{Layer, Library, LibraryWriter, Way, WriteError};
use tokio::task::spawn_blocking;

use super::Inner;
use super::job::Job;

/// Characters of a digest that people are shown.
const SHORT_DIGEST: usize = 12;

/// Stops the work when whoever waits for it has gone.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Takes what other libraries have of the contents that are missing.
pub(super) async fn take(inner: &Arc<Inner>, job: &Arc<Job>, downloads: &Downloads, missing: &[Layer]) {
    for layer in missing {
        let has = |library: &&Library| library.blob(layer).is_ok();
        let Some(library) = inner.others.iter().find(has).cloned() else { continue };
        if downloads.staging().ready(&layer.digest, layer.size_bytes).is_some() {
            continue;
        }
        let (digest, root) = (layer.digest.hex(), library.root().to_owned());
        let (digest, root) = (&digest[..SHORT_DIGEST], root.display());
        job.say(format!("{root} has {digest}: it is taken from there, and not fetched"));
        let wanted = Arc::new(AtomicBool::new(true));
        let waiting = Waiting(Arc::clone(&wanted));
        let (inner, downloads, wished) = (Arc::clone(inner), downloads.clone(), layer.clone());
        let taken = spawn_blocking(move || -> Result<Way, WriteError> {
            let reserve_bytes = inner.settings.reserve_bytes();
            let writer = LibraryWriter::open(&inner.library, &RealDisk)?.keeping_free(reserve_bytes);
            writer.stage(downloads.staging(), &library, &wished, &mut |_| wanted.load(Ordering::Relaxed))
        });
        match taken.await.expect("taking does not panic") {
            Ok(_) => job.held(layer),
            Err(error) => job.trouble(format!("{digest} of {root} cannot be used, and is fetched: {error}")),
        }
        drop(waiting);
    }
}
