//! The steps of a pull: request the manifest, download the blobs, publish the model.
//!
//! Fetching can be cancelled at any point by dropping its future: the downloads keep partial blobs. Publishing is short
//! and cannot be interrupted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use cairn_disk::RealDisk;
use cairn_registry::{DownloadEvent, DownloadEventKind, DownloadNotice, Downloads, Subscription};
use cairn_store::{Digest, Layer, LayerKind, Library, LibraryWriter, Manifest, PublishedModel};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::{JoinSet, spawn_blocking};

use super::blobs::PulledBlob;
use super::error::PullError;
use super::job::{Job, PullStep};
use super::runnable::{self, Access};
use super::{Inner, nearby};
use crate::library::template;

/// Media type of a layer with a single tensor, as used by models for Apple's MLX.
const TENSOR: &str = "application/vnd.ollama.image.tensor";

/// Maximum number of blobs of one model that are queued or downloaded at the same time: twice the parallel downloads, so
/// that none of them waits. More would only take memory.
const MAX_QUEUED: usize = 8;

/// A model whose blobs are all on this machine.
pub(super) struct Fetched {
    downloads: Downloads,
    manifest: Bytes,
}

/// Downloads all blobs of the model.
pub(super) async fn fetch(inner: &Arc<Inner>, job: &Arc<Job>) -> Result<Fetched, PullError> {
    job.step(PullStep::Manifest);
    let request = job.view().request.clone();
    let within = Arc::clone(inner);
    let prepared = spawn_blocking(move || {
        let origins = within.registry_access.origins(&request.name, request.insecure, &request.sources)?;
        Ok::<_, PullError>((within.downloads()?, origins))
    });
    let (downloads, mut origins) = prepared.await.expect("preparing does not panic")?;
    let reporting = Arc::clone(job);
    let (found, host) = origins.manifest(&move |line| reporting.problem(line)).await?;
    let name = || job.name.to_string();
    if let Some(why) = unsupported_schema(&found.manifest) {
        return Err(PullError::Foreign { host, name: name(), why });
    }
    if found.manifest.layers.is_empty() {
        return Err(PullError::Empty { host, name: name() });
    }
    if found.manifest.layers.iter().any(|layer| layer.kind == LayerKind::Other(TENSOR.to_owned())) {
        return Err(PullError::Tensors { name: name() });
    }
    if let Some((digest, sizes)) = inconsistent_size(&found.manifest) {
        return Err(PullError::TwoSizes { host, name: name(), digest, sizes });
    }
    let (library, within, layers) = (inner.library.clone(), downloads.clone(), contents(&found.manifest));
    let found_blobs = spawn_blocking(move || {
        let blobs: Vec<PulledBlob> = layers.iter().map(|layer| find_blob(&library, &within, layer)).collect();
        let missing = layers.into_iter().zip(&blobs).filter(|(_, blob)| !blob.published).map(|(layer, _)| layer);
        (missing.collect::<Vec<Layer>>(), blobs)
    });
    let (missing, blobs) = found_blobs.await.expect("looking for files does not panic");
    // Checked before the view is locked, because the check locks the views of other jobs.
    let before: Vec<Digest> = {
        let view = job.view();
        view.blobs.iter().chain(&view.superseded).map(|blob| blob.digest).collect()
    };
    let needed = inner.needed_by_other_jobs(job, &before);
    job.set_blobs(blobs, &needed);
    inner.save_job(job);
    let mut events = downloads.events();
    let sources = origins.blob_sources();
    nearby::import(inner, job, &downloads, &missing).await;
    let digests: HashSet<Digest> = missing.iter().map(|layer| layer.digest).collect();
    let report = |event: Result<DownloadEvent, RecvError>| match event {
        Ok(event) if digests.contains(&event.digest) => {
            if let DownloadEventKind::Notice(notice) = event.kind {
                if let DownloadNotice::WrongBytes { host, .. } = &notice {
                    inner.registry_access.nearby().block_host(host);
                }
                job.problem(notice.to_string());
            }
            Ok(())
        }
        Ok(_) | Err(RecvError::Lagged(_)) => Ok(()),
        Err(RecvError::Closed) => Err(PullError::from(cairn_registry::DownloadError::Aborted)),
    };
    let access = Access { inner, job, downloads: &downloads, sources: &sources };
    // Its download continues until it is joined below.
    let _checked = {
        let mut checking = std::pin::pin!(runnable::check(&access, &found.manifest));
        loop {
            tokio::select! {
                biased;
                event = events.recv() => report(event)?,
                checked = &mut checking => break checked?,
            }
        }
    };
    let mut waiting = missing.into_iter();
    let mut fetching = JoinSet::new();
    loop {
        while fetching.len() < MAX_QUEUED
            && let Some(layer) = waiting.next()
        {
            let subscription = access.fetch(&layer, None);
            fetching.spawn(follow(Arc::clone(job), layer, subscription));
        }
        tokio::select! {
            biased;
            event = events.recv() => report(event)?,
            ended = fetching.join_next() => match ended {
                None => return Ok(Fetched { downloads, manifest: found.bytes }),
                Some(ended) => ended.expect("following a download does not panic")?,
            },
        }
    }
}

/// Returns a blob for which the manifest states two sizes.
fn inconsistent_size(manifest: &Manifest) -> Option<(Digest, [u64; 2])> {
    let mut sizes = HashMap::new();
    manifest.layers.iter().chain(&manifest.config).find_map(|layer| {
        let first = *sizes.entry(layer.digest).or_insert(layer.size_bytes);
        (first != layer.size_bytes).then_some((layer.digest, [first, layer.size_bytes]))
    })
}

/// Why a manifest is not that of a model.
fn unsupported_schema(manifest: &Manifest) -> Option<&'static str> {
    (manifest.schema_version != Some(2)).then_some("its schemaVersion is not 2")
}

/// The distinct blobs of a model, largest first because it takes longest.
fn contents(manifest: &Manifest) -> Vec<Layer> {
    let mut seen = HashSet::new();
    let all = manifest.layers.iter().chain(&manifest.config);
    let mut layers: Vec<Layer> = all.filter(|layer| seen.insert(layer.digest)).cloned().collect();
    layers.sort_by_key(|layer| std::cmp::Reverse(layer.size_bytes));
    layers
}

/// Looks up how much of a blob is on this machine.
pub(super) fn find_blob(library: &Library, downloads: &Downloads, layer: &Layer) -> PulledBlob {
    let published = library.blob(layer).is_ok();
    let staging = downloads.staging();
    let held_bytes = match published || staging.ready(&layer.digest, layer.size_bytes).is_some() {
        true => layer.size_bytes,
        false => staging.durable_bytes(&layer.digest).min(layer.size_bytes),
    };
    let (digest, size_bytes) = (layer.digest, layer.size_bytes);
    PulledBlob { digest, size_bytes, held_bytes, bytes_per_s: 0, host: None, published }
}

/// Forwards the progress of a download to the job until the download ends.
async fn follow(job: Arc<Job>, layer: Layer, mut subscription: Subscription) -> Result<(), PullError> {
    let mut progress = subscription.progress();
    let ended = loop {
        tokio::select! {
            ended = subscription.wait() => break ended,
            Ok(()) = progress.changed() => {
                let now = progress.borrow_and_update().clone();
                job.progress(&layer.digest, &now);
            }
        }
    };
    ended?;
    job.complete_blob(&layer);
    Ok(())
}

/// Publishes the blobs and the manifest.
pub(super) async fn publish(inner: &Arc<Inner>, job: &Arc<Job>, fetched: Fetched) -> Result<(), PullError> {
    // Each blob was verified during its download. The step exists for clients that expect it.
    job.step(PullStep::Verifying);
    job.step(PullStep::Writing);
    let (within, name, for_clients) = (Arc::clone(inner), job.name.clone(), job.view().request.for_clients);
    let published = spawn_blocking(move || -> Result<(PublishedModel, Vec<String>), PullError> {
        if for_clients && within.is_local_model(&name) {
            return Err(PullError::MadeHere { name: name.to_string() });
        }
        let prunes = !within.settings.models.keep_unneeded;
        let writer = LibraryWriter::open(&within.library, &RealDisk)?.with_pinned_blobs(within.digests_in_use());
        let published = writer.publish(fetched.downloads.staging(), &name, &fetched.manifest, prunes)?;
        if let Err(error) = within.pulled_manifests.record(&name, &Digest::of(&fetched.manifest)) {
            tracing::warn!(model = %name, %error, "cannot record the pulled manifest; clients cannot update the model");
        }
        let config = within.library.config(&published.model.manifest);
        Ok((published, template::warnings(&config.renderer, &config.parser).collect()))
    });
    let (published, problems) = published.await.expect("publishing does not panic")?;
    for problem in problems {
        job.problem(problem);
    }
    if !published.removed.is_empty() {
        job.step(PullStep::Removing);
    }
    job.change(|view| view.blobs.iter_mut().for_each(|blob| blob.published = true));
    job.step(PullStep::Success);
    tracing::info!(model = %published.model.name, removed = published.removed.len(), "pulled");
    Ok(())
}
