//! A place that others keep their own things in.

use super::*;

#[test]
fn two_installations_share_a_place_and_leave_each_other_alone() {
    for door in DOORS {
        let home = Home::new();
        let keys = Remote::keys(&Namespace::new(b"another installation", "place"));
        let (one, other) = (home.open(door), home.open_over(home.files(door), keys));
        let (ours, theirs) = (chunks(41), vec![Sequence::new("you", 1, 42).chunk(256)]);
        ours.iter().for_each(|chunk| drop(one.save(chunk).expect("it is written")));
        theirs.iter().for_each(|chunk| drop(other.save(chunk).expect("it is written")));
        home.clock.pass(Duration::from_secs(301));
        assert_eq!((scanned(&one).len(), scanned(&other).len()), (3, 1), "{door:?}: each tells of its own");
        for chunk in &ours {
            let missed = other.load(&wanted(chunk)).err();
            assert!(!matches!(missed, None | Some(Miss::Damaged(_))), "{door:?}: no damage, and no chunk: {missed:?}");
            assert!(!other.may_hold(&chunk.head.id), "{door:?}: and not asked for again");
            comes_back(&one, chunk, "they stay");
        }
    }
}

#[test]
fn a_sweep_takes_drafts_of_its_own_kind_only() {
    let home = Home::new();
    let remote = home.open(Door::Folder);
    remote.save(&chunks(43)[0]).expect("it is written");
    let drafts = home.folder.path().join("v1/drafts");
    let old = |name: &str| {
        let path = drafts.join(name);
        std::fs::write(&path, "old").expect("the folder is writable");
        let file = std::fs::File::options().write(true).open(&path).expect("it is there");
        let then = file.metadata().and_then(|found| found.modified()).expect("files have times");
        file.set_modified(then - Duration::from_secs(3 * 24 * 3600)).expect("a file's time can be set");
        path
    };
    let others = ["notes.txt", ".draft.12-3.tmp", "a folder's list", &"ab".repeat(24)].map(old);
    let own = old(".remote.12ab.tmp");
    // Each mount is swept once, with its first write.
    home.open(Door::Folder).save(&chunks(44)[0]).expect("it is written");
    others.iter().for_each(|path| assert!(path.exists(), "{} is not ours to remove", path.display()));
    assert!(!own.exists(), "a draft of ours that was left behind is removed");
}
