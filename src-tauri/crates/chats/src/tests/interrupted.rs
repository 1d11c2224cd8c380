//! A repair that was killed or failed between its steps is completed, and loses nothing.

use super::repaired::{CHATS, count, damage, fill, leaf_pages, names};
use super::*;

/// Fills a database, then damages a page that is not in its log. The log has the chat `last`.
fn damaged_with_log() -> Home {
    let home = Home::new();
    let path = home.folder.path().join("chats.sqlite");
    fill(&home.chats);
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    home.chats.with_writer(|writer| Ok(writer.execute_batch(checkpoint)?)).expect("a checkpoint");
    home.create("last", 9);
    let page = leaf_pages(&path, "messages")[1];
    damage(&path, page..page + 1);
    home
}

#[test]
fn kill_between_the_renames_of_a_repair_loses_nothing() {
    let home = damaged_with_log();
    drop(home.after_kill());
    let new = std::fs::read(home.folder.path().join("after/chats.sqlite")).expect("the complete new file");
    let (old_name, aside_name) = ("chats.sqlite", "chats.damaged.5.sqlite");
    for renames in 0..3 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = |name: &str| folder.path().join(name);
        for suffix in ["", "-wal", "-shm"] {
            let name = format!("{old_name}{suffix}");
            std::fs::copy(home.folder.path().join(&name), file(&name)).expect("a file of the killed process");
        }
        let log = std::fs::read(file("chats.sqlite-wal")).expect("the log");
        assert!(!log.is_empty(), "the log has the last chat");
        std::fs::write(file("chats.repaired"), &new).expect("the new file");
        for suffix in ["", "-wal"].into_iter().take(renames) {
            let to = file(&format!("{aside_name}{suffix}"));
            std::fs::rename(file(&format!("{old_name}{suffix}")), to).expect("a rename of the repair");
        }
        let chats = Chats::open(&file(old_name), 6).expect("the file");
        assert_eq!(count(&chats), CHATS + 1, "the new file is used, {renames} renames before the kill");
        assert!(chats.chat("last").is_ok(), "the chat of the log, {renames} renames before the kill");
        chats.read(quick_check).expect("the new file is valid");
        drop(chats);
        let mut names = names(folder.path());
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        let aside_name = if renames == 0 { "chats.damaged.6.sqlite" } else { aside_name };
        assert_eq!(names, [aside_name, old_name], "one file is set aside, {renames} renames before the kill");
        if renames > 0 {
            let kept = std::fs::read(file(&format!("{aside_name}-wal"))).expect("the log is set aside");
            assert!(kept == log, "the log is unchanged, {renames} renames before the kill");
        }
    }
}

#[test]
fn repair_that_failed_between_its_renames_is_completed_by_the_next_one() {
    let home = damaged_with_log();
    let file = |name: &str| home.folder.path().join(name);
    // Another program that has the file open, so that SQLite keeps the log.
    let other = rusqlite::Connection::open(file("chats.sqlite")).expect("the file");
    other.query_row("SELECT count(*) FROM presets", [], |_| Ok(())).expect("read");
    let found = (0..CHATS).find_map(|n| home.chats.messages(&format!("c{n}")).err());
    assert!(matches!(found, Some(ChatsError::Damaged(_))), "the damage is found: {found:?}");
    // A folder with the new name of the log.
    let obstacle = file("chats.damaged.5.sqlite-wal");
    std::fs::create_dir_all(obstacle.join("folder")).expect("a folder");
    let failed = home.chats.repair_if_damaged(5);
    assert!(matches!(failed, Err(ChatsError::Repair { .. })), "the second rename fails: {failed:?}");
    assert!(!file("chats.sqlite").exists(), "the first rename succeeded");
    std::fs::remove_dir_all(&obstacle).expect("the folder is removed");

    let repair = home.chats.repair_if_damaged(6).expect("the repair is completed").expect("a repair");
    assert_eq!(repair.set_aside, file("chats.damaged.5.sqlite"), "the file that the first attempt set aside");
    assert_eq!((repair.chats, count(&home.chats)), (CHATS as u64 + 1, CHATS + 1), "all chats are in the new file");
    assert!(home.chats.chat("last").is_ok(), "the chat of the log");
    assert!(obstacle.metadata().expect("the log is set aside").len() > 0, "with its rows");
}

#[test]
fn incomplete_new_file_of_a_killed_repair_is_not_used() {
    let home = Home::new();
    let path = home.folder.path().join("chats.sqlite");
    std::fs::write(path.with_extension("repaired-partial"), "half a database").expect("a file");
    home.create("c", 1);
    assert_eq!(
        cairn_sqlite::files_set_aside(&path),
        [path.with_extension("repaired-partial")],
        "an erasure removes it"
    );
    home.chats.database.report_damage("found by the test".to_owned());
    home.chats.repair_if_damaged(5).expect("a repair").expect("a new file");
    assert!(home.chats.chat("c").is_ok(), "the chat is in the new file");
    assert!(!path.with_extension("repaired-partial").exists(), "the incomplete file is replaced");
}
