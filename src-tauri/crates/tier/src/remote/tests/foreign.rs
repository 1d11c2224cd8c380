//! Tests with files of other installations and programs.

use super::*;

#[test]
fn two_installations_share_a_store_without_interference() {
    for backend in BACKENDS {
        let dir = TestFolder::new();
        let keys = RemoteTier::keys(&Namespace::new(b"another installation", "place"));
        let (one, other) = (dir.open(backend), dir.open_over(dir.files(backend), keys));
        let (ours, theirs) = (chunks(41), vec![Sequence::new("you", 1, 42).chunk(256)]);
        ours.iter().for_each(|chunk| drop(one.save(chunk).expect("the chunks are written")));
        theirs.iter().for_each(|chunk| drop(other.save(chunk).expect("the chunks are written")));
        dir.clock.pass(Duration::from_secs(301));
        assert_eq!(
            (scanned(&one).len(), scanned(&other).len()),
            (3, 1),
            "{backend:?}: each scan reports its own chunks"
        );
        for chunk in &ours {
            let missed = other.load(&wanted(chunk)).err();
            assert!(
                !matches!(missed, None | Some(Miss::Damaged(_))),
                "{backend:?}: the foreign file is not a chunk and not damaged: {missed:?}"
            );
            assert!(!other.may_contain(&chunk.head.id), "{backend:?}: the chunk is not requested again");
            assert_loads(&one, chunk, "the chunk stays");
        }
    }
}

#[test]
fn sweep_removes_only_own_abandoned_drafts() {
    let dir = TestFolder::new();
    let remote = dir.open(Backend::Folder);
    remote.save(&chunks(43)[0]).expect("the chunks are written");
    let drafts = dir.folder.path().join("v1/drafts");
    let old = |name: &str| {
        let path = drafts.join(name);
        std::fs::write(&path, "old").expect("the folder is writable");
        let file = std::fs::File::options().write(true).open(&path).expect("it exists");
        let then = file.metadata().and_then(|found| found.modified()).expect("files have modification times");
        file.set_modified(then - Duration::from_secs(3 * 24 * 3600)).expect("the modification time can be set");
        path
    };
    let others = ["notes.txt", ".draft.12-3.tmp", "a folder's list", &"ab".repeat(24)].map(old);
    let own = old(".remote.12ab.tmp");
    // Each mount is swept once, at its first write.
    dir.open(Backend::Folder).save(&chunks(44)[0]).expect("the chunks are written");
    others.iter().for_each(|path| assert!(path.exists(), "{} belongs to another program and stays", path.display()));
    assert!(!own.exists(), "an abandoned draft of this program is removed");
}
