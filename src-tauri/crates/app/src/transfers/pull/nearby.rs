//! Contents that another library of this machine has: taken from there, they need not be fetched.
//!
//! Those libraries are only read, and every byte is checked on the way, so that what is damaged there is fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_disk::RealDisk;
use cairn_registry::Downloads;
use cairn_store::{ImportMethod, Layer, Library, LibraryWriter, WriteError};
use tokio::task::spawn_blocking;

use super::Inner;
use super::job::Job;

/// Stops the work when whoever waits for it has gone.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Takes what other libraries have of the contents that are missing.
pub(super) async fn take(inner: &Arc<Inner>, job: &Arc<Job>, downloads: &Downloads, missing: &[Layer]) {
    let ready = |layer: &Layer| downloads.staging().ready(&layer.digest, layer.size_bytes).is_some();
    let had = missing.iter().filter(|layer| !ready(layer)).filter_map(|layer| {
        let has = |library: &&Library| library.blob(layer).is_ok();
        inner.others.iter().find(has).map(|library| (layer, library))
    });
    let had: Vec<(&Layer, &Library)> = had.collect();
    for (place, (_, library)) in had.iter().enumerate() {
        let of_it = |(_, other): &&(&Layer, &Library)| other.root() == library.root();
        if !had[..place].iter().any(|had| of_it(&had)) {
            let (root, count) = (library.root().display(), had.iter().filter(of_it).count());
            job.say(format!("{root} has {count} of {} missing files: taken from there, not fetched", missing.len()));
        }
    }
    for (layer, library) in had {
        let wanted = Arc::new(AtomicBool::new(true));
        let waiting = Waiting(Arc::clone(&wanted));
        let (inner, downloads) = (Arc::clone(inner), downloads.clone());
        let (origin, wished) = (library.clone(), layer.clone());
        let taken = spawn_blocking(move || -> Result<ImportMethod, WriteError> {
            let reserve_bytes = inner.settings.downloads.reserve_bytes();
            let writer = LibraryWriter::open(&inner.library, &RealDisk)?.with_reserve(reserve_bytes);
            writer.stage(downloads.staging(), &origin, &wished, &mut |_| wanted.load(Ordering::Relaxed))
        });
        match taken.await.expect("taking does not panic") {
            Ok(_) => job.held(layer),
            Err(error) => {
                let (root, digest) = (library.root().display(), layer.digest);
                job.trouble(format!("{digest} of {root} cannot be used, and is fetched: {error}"));
            }
        }
        drop(waiting);
    }
}
