//! Runs each fuzz target on its corpus: inputs with the most coverage, and regression inputs.

use std::path::Path;

use cairn_fuzz::TARGETS;
use cairn_testkit::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The corpus is cloned by everybody.
const MOST_BYTES: u64 = 300_000;

/// One test, since the allocator counts for the whole process.
#[test]
fn corpus_runs_without_panic() {
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
            assert!(ran.is_ok(), "input {} fails in the target {}", path.display(), target.name);
            bytes += input.len() as u64;
            count += 1;
        }
        assert!(count > 20, "{count} inputs are too few for {}", target.name);
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes are too many to be kept; `cargo xtask fuzz` makes them fewer");
}
