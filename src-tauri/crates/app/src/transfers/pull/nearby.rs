//! Imports blobs from other libraries of this machine, so that they need not be downloaded.
//!
//! Those libraries are only read. Each blob is verified while it is copied; a damaged one is downloaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_disk::RealDisk;
use cairn_registry::Downloads;
use cairn_store::{ImportMethod, Layer, Library, LibraryWriter, WriteError};
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

/// Imports the missing blobs that other libraries have.
pub(super) async fn import(inner: &Arc<Inner>, job: &Arc<Job>, downloads: &Downloads, missing: &[Layer]) {
    let ready = |layer: &Layer| downloads.staging().ready(&layer.digest, layer.size_bytes).is_some();
    let available = missing.iter().filter(|layer| !ready(layer)).filter_map(|layer| {
        let has = |library: &&Library| library.blob(layer).is_ok();
        inner.others.iter().find(has).map(|library| (layer, library))
    });
    let available: Vec<(&Layer, &Library)> = available.collect();
    for (index, (_, library)) in available.iter().enumerate() {
        let is_same = |(_, other): &&(&Layer, &Library)| other.root() == library.root();
        if !available[..index].iter().any(|earlier| is_same(&earlier)) {
            let (root, count) = (library.root().display(), available.iter().filter(is_same).count());
            job.info(format!("importing {count} of {} missing files from {root}", missing.len()));
        }
    }
    for (layer, library) in available {
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
