//! Imports blobs from other libraries of this machine, so that they need not be downloaded.
//!
//! Those libraries are only read. Each blob is verified while it is copied; a damaged one is downloaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_disk::RealDisk;
use cairn_registry::Downloads;
use cairn_store::{ImportMethod, Layer, Library, LibraryWriter, Staging, WriteError};
use tokio::task::spawn_blocking;

use super::Inner;
use super::job::Job;

/// Cancels the copy when its future is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Finds the layers that are not ready and that one of these libraries has.
fn find(libraries: &[Library], staging: &Staging, layers: Vec<Layer>) -> Vec<(Layer, Library)> {
    let ready = |layer: &Layer| staging.ready(&layer.digest, layer.size_bytes).is_some();
    let found = layers.into_iter().filter(|layer| !ready(layer)).filter_map(|layer| {
        let library = libraries.iter().find(|library| library.blob(&layer).is_ok())?;
        Some((layer, library.clone()))
    });
    found.collect()
}

/// Imports the missing blobs that other libraries have.
pub(super) async fn import(inner: &Arc<Inner>, job: &Arc<Job>, downloads: &Downloads, missing: &[Layer]) {
    let (within, staging, layers) = (Arc::clone(inner), downloads.staging().clone(), missing.to_vec());
    let available = spawn_blocking(move || find(&within.others, &staging, layers));
    let available = available.await.expect("looking for files does not panic");
    for library in &inner.others {
        let is_same = |(_, other): &&(Layer, Library)| other.root() == library.root();
        let count = available.iter().filter(is_same).count();
        if count > 0 {
            job.info(format!("importing {count} of {} missing files from {}", missing.len(), library.root().display()));
        }
    }
    for (layer, library) in &available {
        let active = Arc::new(AtomicBool::new(true));
        let guard = CancelOnDrop(Arc::clone(&active));
        let (inner, downloads) = (Arc::clone(inner), downloads.clone());
        let (source, wanted) = (library.clone(), layer.clone());
        let imported = spawn_blocking(move || -> Result<ImportMethod, WriteError> {
            let reserve_bytes = inner.settings.downloads.reserve_bytes();
            let writer = LibraryWriter::open(&inner.library, &RealDisk)?.with_reserve(reserve_bytes);
            writer.stage(downloads.staging(), &source, &wanted, &mut |_| active.load(Ordering::Relaxed))
        });
        match imported.await.expect("the import does not panic") {
            Ok(_) => job.complete_blob(layer),
            Err(error) => {
                let (root, digest) = (library.root().display(), layer.digest);
                job.problem(format!("cannot import {digest} from {root}: {error}; downloading it"));
            }
        }
        drop(guard);
    }
}
