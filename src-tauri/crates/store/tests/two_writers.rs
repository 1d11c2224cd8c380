//! Two writers share a library, like two programs: each opens it separately. Listed models always have their blobs.
//! `tests/it/libraries.rs` tests two processes.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cairn_disk::RealDisk;
use cairn_store::{GcOptions, LayerKind, Library, LibraryWriter, ModelRef};

/// Rounds of each writer.
const TURNS: usize = 60;

fn work(root: &Path, id: usize) -> usize {
    let library = Library::new(root.to_owned());
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let name = |text: &str| text.parse::<ModelRef>().unwrap();
    let mut saved = 0;
    for turn in 0..TURNS {
        // Both writers write and delete the same blobs.
        let shared = writer.put(LayerKind::Model, &vec![u8::try_from(turn % 3).unwrap(); 100_000]).unwrap();
        let own = writer.put(LayerKind::System, format!("{id} {turn}").as_bytes()).unwrap();
        // The other writer may have removed a blob that `put` found. `save` then fails, and the next round writes it again.
        let mine = format!("model{id}");
        saved += usize::from(writer.save(&name(&mine), b"{}", &[shared, own], true).is_ok());
        let _ = writer.copy(&library, &name(&mine), &name("common"), &mut |_| true);
        if turn % 3 == id {
            let _ = writer.delete(&name("common"));
            let _ = writer.delete(&name(&mine));
        }
        if turn % 7 == id {
            // A day ahead, so that no file is too recent.
            let now = fs::metadata(root).unwrap().modified().unwrap() + Duration::from_secs(86_400);
            writer.collect_garbage(GcOptions { now, dry_run: false, partials: false }).unwrap();
        }
    }
    saved
}

#[test]
fn concurrent_writers_never_leave_a_broken_model() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("models");
    let (library, done) = (Library::new(root.clone()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut listings = 0;
            while !done.load(Ordering::Relaxed) {
                let listing = library.list().unwrap();
                // A manifest may be removed while it is listed, but it is never incomplete.
                let torn: Vec<_> = listing.skipped.iter().filter(|s| !s.reason.contains("could not read")).collect();
                assert!(torn.is_empty(), "{torn:?}");
                listings += 1;
            }
            listings
        });
        let writers: Vec<_> = (0..2)
            .map(|id| {
                scope.spawn({
                    let root = &root;
                    move || work(root, id)
                })
            })
            .collect();
        let saved: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        assert!(saved > TURNS, "most saves succeed: {saved}");
        assert!(reader.join().unwrap() > 0, "the reader ran");
    });
    let listing = library.list().unwrap();
    assert!(listing.skipped.is_empty(), "{:?}", listing.skipped);
    for model in &listing.models {
        for layer in model.manifest.layers.iter().chain(&model.manifest.config) {
            let outcome = library.verify_blob(&layer.digest, Some(layer.size_bytes), &mut |_| true);
            assert_eq!(outcome, Some(Ok(())), "{} has its blobs", model.name);
        }
    }
    let others = fs::read_dir(root.join("blobs")).unwrap().flatten();
    let others: Vec<_> =
        others.map(|entry| entry.file_name()).filter(|n| !n.to_string_lossy().starts_with("sha")).collect();
    assert!(others.is_empty(), "no temporary file remains: {others:?}");
    let usage = library.usage(SystemTime::UNIX_EPOCH).unwrap();
    assert!(usage.models.iter().all(|model| model.missing == 0), "{:?}", usage.models);
}
