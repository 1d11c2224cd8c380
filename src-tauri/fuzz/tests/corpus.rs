//! Every input that fuzzing has kept is run again: those that reach most of the code, and those that once broke a promise.

use std::path::Path;

use cairn_fuzz::TARGETS;
use cairn_testkit::allocation::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The corpus is cloned by everybody.
const MOST_BYTES: u64 = 300_000;

/// One test, since the allocator counts for the whole process.
#[test]
fn the_corpus_breaks_no_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bytes = 0;
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for entry in entries {
            let path = entry.expect("the folder can be listed").path();
            let input = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let ran = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(ran.is_ok(), "{} breaks a promise of the target {}", path.display(), target.name);
            bytes += input.len() as u64;
            count += 1;
        }
        assert!(count > 20, "{count} inputs are no corpus of {}", target.name);
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes are too many to be kept; `cargo xtask fuzz` makes them fewer");
}
