//! Two writers share a library, as two programs do: they open it each for itself, and know nothing of each other. Whatever
//! they do at once, what is listed is whole. (Two programs in earnest: `tests/it/libraries.rs`.)

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cairn_disk::RealDisk;
use cairn_store::{Garbage, LayerKind, Library, LibraryWriter, ModelRef};

/// What each writer does, so many times.
const TURNS: usize = 60;

fn work(root: &Path, who: usize) -> usize {
    let library = Library::new(root.to_owned());
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let name = |text: &str| text.parse::<ModelRef>().unwrap();
    let mut saved = 0;
    for turn in 0..TURNS {
        // Both have the same contents, and take them from each other.
        let shared = writer.put(LayerKind::Model, &vec![u8::try_from(turn % 3).unwrap(); 100_000]).unwrap();
        let own = writer.put(LayerKind::System, format!("{who} {turn}").as_bytes()).unwrap();
        // The other one may have taken out what this one has just found there; then it is said, and put in again.
        let mine = format!("model{who}");
        saved += usize::from(writer.save(&name(&mine), b"{}", &[shared, own], true).is_ok());
        let _ = writer.copy(&library, &name(&mine), &name("common"), &mut |_| true);
        if turn % 3 == who {
            let _ = writer.delete(&name("common"));
            let _ = writer.delete(&name(&mine));
        }
        if turn % 7 == who {
            // A day ahead, so that nothing is too young to go.
            let now = fs::metadata(root).unwrap().modified().unwrap() + Duration::from_secs(86_400);
            writer.collect_garbage(Garbage { now, dry_run: false, partials: false }).unwrap();
        }
    }
    saved
}

#[test]
fn what_is_listed_is_whole_at_every_moment() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("models");
    let (library, done) = (Library::new(root.clone()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looked = 0;
            while !done.load(Ordering::Relaxed) {
                let listing = library.list().unwrap();
                // A manifest may go between its name and its bytes; one that is there is never half of one.
                let torn: Vec<_> = listing.skipped.iter().filter(|s| !s.reason.contains("could not read")).collect();
                assert!(torn.is_empty(), "{torn:?}");
                looked += 1;
            }
            looked
        });
        let writers: Vec<_> = (0..2)
            .map(|who| {
                scope.spawn({
                    let root = &root;
                    move || work(root, who)
                })
            })
            .collect();
        let saved: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        assert!(saved > TURNS, "most of what was to be saved was: {saved}");
        assert!(reader.join().unwrap() > 0, "somebody looked");
    });
    let listing = library.list().unwrap();
    assert!(listing.skipped.is_empty(), "{:?}", listing.skipped);
    for model in &listing.models {
        for layer in model.manifest.layers.iter().chain(&model.manifest.config) {
            let outcome = library.check(&layer.digest, Some(layer.size_bytes), &mut |_| true);
            assert_eq!(outcome, Some(Ok(())), "{} is whole", model.name);
        }
    }
    let drafts = fs::read_dir(root.join("blobs")).unwrap().flatten();
    let drafts: Vec<_> =
        drafts.map(|entry| entry.file_name()).filter(|n| !n.to_string_lossy().starts_with("sha")).collect();
    assert!(drafts.is_empty(), "nothing half-written stays: {drafts:?}");
    let usage = library.usage(SystemTime::UNIX_EPOCH).unwrap();
    assert!(usage.models.iter().all(|model| model.missing == 0), "{:?}", usage.models);
}
