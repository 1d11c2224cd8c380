//! Damaged files are repaired, full disks and read-only files are reported, and backups are written daily.

use std::path::PathBuf;

use super::size::sentence;
use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const PAGE_BYTES: u64 = 4096;
pub(super) const CHATS: usize = 200;

/// Fills a new database with chats, and closes it.
pub(super) fn closed_database() -> (tempfile::TempDir, PathBuf) {
    let Home { folder, chats } = Home::new();
    fill(&chats);
    let path = folder.path().join("chats.sqlite");
    (folder, path)
}

pub(super) fn fill(chats: &Chats) {
    for n in 0..CHATS {
        let id = format!("c{n}");
        chats
            .create(&id, &NewChatRequest { title: Some(format!("title {n}")), ..NewChatRequest::default() }, 1)
            .expect("a chat");
        let question =
            chats.add(&id, None, &[message("user", &format!("marble {n}"), 2)], 2).expect("a question").remove(0).id;
        chats.add(&id, Some(&question), &[message("assistant", &sentence(n as u64), 3)], 3).expect("an answer");
    }
}

/// Overwrites pages of a file.
pub(super) fn damage(path: &Path, pages: std::ops::Range<u64>) {
    use std::io::{Seek, Write};
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.seek(std::io::SeekFrom::Start(pages.start * PAGE_BYTES)).expect("the page");
    let length = usize::try_from((pages.end - pages.start) * PAGE_BYTES).expect("few pages");
    file.write_all(&vec![0xa5; length]).expect("written");
}

/// Returns leaf pages of a table that hold its rows, in order.
pub(super) fn leaf_pages(path: &Path, table: &str) -> Vec<u64> {
    let connection = rusqlite::Connection::open(path).expect("the file");
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .expect("the table");
    drop(connection);
    let bytes = std::fs::read(path).expect("the file");
    let page = |number: u32| &bytes[(number as usize - 1) * 4096..number as usize * 4096];
    // An interior page of a table: type 5, number of cells, address of each cell, which begins with a child page.
    let interior = page(root);
    assert_eq!(interior[0], 5, "the table has several pages");
    let cells = u16::from_be_bytes([interior[3], interior[4]]) as usize;
    let child = |at: usize| u32::from_be_bytes(interior[at..at + 4].try_into().expect("four bytes"));
    let address = |cell: usize| u16::from_be_bytes([interior[12 + 2 * cell], interior[13 + 2 * cell]]) as usize;
    (0..cells).map(|cell| u64::from(child(address(cell))) - 1).chain([u64::from(child(8)) - 1]).collect()
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(super) fn count(chats: &Chats) -> usize {
    chats.list(&ChatFilter::Unpinned, None, 1000).expect("a list").chats.len()
}

#[test]
fn damaged_page_loses_only_its_rows_and_the_file_is_set_aside() {
    let (folder, path) = closed_database();
    let pages = leaf_pages(&path, "messages");
    assert!(pages.len() > 4, "the damage is between readable pages: {pages:?}");
    damage(&path, pages[2]..pages[2] + 1);
    let damaged = std::fs::read(&path).expect("the file");
    let chats = Chats::open(&path, 5).expect("the damage is not found at a clean start");
    let failed = (0..CHATS).find_map(|n| chats.messages(&format!("c{n}")).err()).expect("a chat cannot be read");
    assert!(matches!(failed, ChatsError::Damaged(_)), "the damage is found: {failed:?}");
    assert!(matches!(chats.chat("c0"), Err(ChatsError::CheckFailed(_))), "the file is not used any more");

    let repair = chats.repair_if_damaged(5).expect("a repair").expect("the file was damaged");
    assert_eq!(chats.last_repair(), Some(repair.clone()), "the repair is reported");
    assert_eq!((repair.chats, repair.used_backup), (CHATS as u64, false), "all chats were readable");
    assert!((CHATS as u64..2 * CHATS as u64).contains(&repair.messages), "some messages are lost: {repair:?}");
    assert_eq!(std::fs::read(&repair.set_aside).expect("the damaged file"), damaged, "the damaged file is unchanged");
    let name = repair.set_aside.file_name().and_then(|name| name.to_str());
    assert_eq!(name, Some("chats.damaged.5.sqlite"), "with the time");
    chats.read(quick_check).expect("the new file is valid");
    let read: usize =
        (0..CHATS).map(|n| chats.path(&format!("c{n}"), None, None, 100).expect("a path").messages.len()).sum();
    assert!(read as u64 > repair.messages / 2, "branches are readable: {read}");
    assert!(!chats.search("marble 0", 50).expect("a search").is_empty(), "readable messages are found");
    assert_eq!(chats.repair_if_damaged(6).expect("no damage"), None, "one repair");
    add_chat(&chats);
    drop(chats);
    let chats = Chats::open(&path, 7).expect("the new file");
    assert_eq!((count(&chats), chats.last_repair()), (CHATS + 1, None), "the new file is used");
    drop(folder);
}

pub(super) fn add_chat(chats: &Chats) {
    chats.create("new", &NewChatRequest::default(), 9).expect("a chat");
    chats.add("new", None, &[message("user", "hello", 9)], 9).expect("a message");
}

#[test]
fn lost_rows_are_restored_from_the_backup() {
    let Home { folder, chats } = Home::new();
    let path = folder.path().join("chats.sqlite");
    fill(&chats);
    chats.back_up_if_due(4).expect("a backup");
    add_chat(&chats);
    chats.delete("c3").expect("deleted");
    drop(chats);
    for table in ["messages", "chats"] {
        for page in leaf_pages(&path, table) {
            damage(&path, page..page + 1);
        }
    }
    let chats = Chats::open(&path, 5).expect("the damage is not found at a clean start");
    assert!(chats.messages("c0").is_err(), "the damage is found");
    let repair = chats.repair_if_damaged(5).expect("a repair").expect("the file was damaged");
    assert!(repair.used_backup, "nothing was readable: {repair:?}");
    assert_eq!((repair.chats, repair.messages), (CHATS as u64 - 1, 2 * (CHATS as u64 - 1)), "all rows of the backup");
    assert!(chats.chat("c3").is_err(), "a chat that was deleted forever stays deleted");
    assert_eq!(chats.path("c0", None, None, 9).expect("a path").messages[0].content, "marble 0", "the messages");
    chats.erase_deleted(6).expect("erased");
    assert!(!repair.set_aside.exists(), "the damaged file has deleted chats");
}

#[test]
fn backup_restores_only_rows_that_were_not_readable() {
    let Home { folder, chats } = Home::new();
    let path = folder.path().join("chats.sqlite");
    fill(&chats);
    let preset = |name: &str| Preset { name: name.to_owned(), ..Preset::default() };
    chats.put_preset(&preset("deleted")).expect("a preset");
    chats.back_up_if_due(4).expect("a backup");
    chats.delete_preset("deleted").expect("deleted");
    chats.put_preset(&preset("new")).expect("a preset");
    let deleted: Vec<String> = (0..CHATS).step_by(3).map(|n| format!("c{n}")).collect();
    deleted.iter().for_each(|id| chats.delete(id).expect("deleted"));
    // As if the table of deleted chats were not readable.
    chats.write(|connection| Ok(connection.execute("DELETE FROM erasures", [])?)).expect("no erasures");
    drop(chats);
    let pages = leaf_pages(&path, "messages");
    damage(&path, pages[2]..pages[2] + 1);
    let chats = Chats::open(&path, 5).expect("the damage is not found at a clean start");
    assert!((0..CHATS).any(|n| matches!(chats.messages(&format!("c{n}")), Err(ChatsError::Damaged(_)))), "found");
    let repair = chats.repair_if_damaged(5).expect("a repair").expect("the file was damaged");
    assert!(repair.used_backup, "the backup has the messages that are not readable");
    let kept = (CHATS - deleted.len()) as u64;
    assert_eq!((repair.chats, repair.messages), (kept, 2 * kept), "all messages of all chats that were not deleted");
    assert!(deleted.iter().all(|id| chats.chat(id).is_err()), "chats that were deleted after the backup stay deleted");
    let presets: Vec<_> = chats.presets().expect("presets").into_iter().map(|preset| preset.name).collect();
    assert_eq!(presets, ["new"], "a preset that was deleted after the backup stays deleted");
}

#[test]
fn row_of_a_deleted_chat_is_not_used_again_after_a_repair() {
    let home = Home::new();
    for id in ["first", "deleted"] {
        home.create(id, 1);
    }
    home.add("deleted", None, "user", "the last message", 1);
    home.chats.delete("deleted").expect("deleted");
    let repair = |now_ms| {
        home.chats.database.report_damage("found by the test".to_owned());
        home.chats.repair_if_damaged(now_ms).expect("a repair").expect("a new file")
    };
    repair(5);
    home.create("new", 6);
    home.add("new", None, "user", "hello", 6);
    let sql = "SELECT row FROM messages";
    let row = home.chats.read(|connection| Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?));
    assert_eq!(row.expect("a message"), 2, "the number of the deleted message is not used again");
    repair(7);
    assert!(home.chats.chat("new").is_ok(), "a second repair keeps the new chat");
    assert_eq!(count(&home.chats), 2, "the deleted chat stays deleted");
}

#[test]
fn file_that_is_no_database_is_replaced_by_the_backup_or_an_empty_file() {
    let Home { folder, chats } = Home::new();
    let path = folder.path().join("chats.sqlite");
    fill(&chats);
    chats.back_up_if_due(4).expect("a backup");
    drop(chats);
    let newer = path.with_extension("v6.5.bak");
    std::fs::copy(path.with_extension("v6.4.bak"), &newer).expect("a newer backup");
    let page = leaf_pages(&newer, "messages")[1];
    damage(&newer, page..page + 1);
    damage(&path, 0..1);
    let chats = Chats::open(&path, 5).expect("the file is replaced");
    let repair = chats.last_repair().expect("a repair");
    assert_eq!((count(&chats), repair.used_backup), (CHATS, true), "the backup: {repair:?}");
    assert_eq!(chats.search("marble", 1000).expect("a search").len(), CHATS, "with its index");
    drop(chats);
    for backup in ["v6.4.bak", "v6.5.bak"] {
        std::fs::remove_file(path.with_extension(backup)).expect("the backup");
    }
    damage(&path, 0..1);
    let chats = Chats::open(&path, 6).expect("the file is replaced");
    assert_eq!(count(&chats), 0, "nothing was readable");
    add_chat(&chats);
    let names = names(folder.path());
    let aside = names.iter().filter(|name| name.starts_with("chats.damaged.") && name.ends_with(".sqlite"));
    assert_eq!(aside.count(), 2, "both damaged files are kept: {names:?}");
}

#[test]
fn file_is_checked_after_a_kill() {
    let home = Home::new();
    fill(&home.chats);
    home.chats
        .with_writer(|writer| Ok(writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?))
        .expect("a checkpoint");
    home.create("last", 9);
    let page = leaf_pages(&home.folder.path().join("chats.sqlite"), "messages")[1];
    damage(&home.folder.path().join("chats.sqlite"), page..page + 1);
    let chats = home.after_kill();
    let repair = chats.last_repair().expect("the damage is found at the start");
    assert_eq!(repair.chats, CHATS as u64 + 1, "the chat in the log is kept: {repair:?}");
    assert!(chats.chat("last").is_ok(), "the last chat");
}

#[test]
fn drop_removes_the_log_after_reads_and_writes() {
    let Home { folder, chats } = Home::new();
    chats.create("c", &NewChatRequest::default(), 1).expect("a chat");
    assert_eq!(count(&chats), 1, "the read connection uses the log");
    drop(chats);
    assert_eq!(names(folder.path()), ["chats.sqlite"], "the next start need not check the file");
}

#[test]
fn backups_are_daily_and_two_are_kept() {
    let home = Home::new();
    let backups = || names(home.folder.path()).into_iter().filter(|name| name.ends_with(".bak")).collect::<Vec<_>>();
    let back_up = |now_ms: i64| home.chats.back_up_if_due(now_ms).expect("a backup");
    let v6 = |days: i64| format!("chats.v6.{}.bak", days * DAY_MS);
    back_up(1);
    assert_eq!(backups(), [""; 0], "there are no chats");
    home.create("c", 1);
    std::fs::write(home.folder.path().join("chats.v3.3.bak"), "of the migration").expect("an older backup");
    back_up(DAY_MS);
    assert_eq!(backups(), ["chats.v3.3.bak".to_owned(), v6(1)], "the first one of this version");
    back_up(2 * DAY_MS - 1);
    assert_eq!(backups().len(), 2, "not due");
    back_up(2 * DAY_MS);
    assert_eq!(backups(), [v6(2), v6(1)], "the last two");
    back_up(3 * DAY_MS);
    assert_eq!(backups(), [v6(2), v6(3)], "the last two");
    back_up(DAY_MS);
    assert_eq!(backups(), [v6(2), v6(1)], "the clock was set back, and the new one is kept");
    #[cfg(unix)]
    for name in backups() {
        use std::os::unix::fs::PermissionsExt;
        let mode = home.folder.path().join(&name).metadata().expect("a backup").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only the user can read {name}");
    }
}

#[test]
fn newer_file_is_not_changed_after_a_kill_of_the_newer_program() {
    let home = Home::new();
    home.create("c", 1);
    let set = "PRAGMA user_version = 999";
    home.chats.with_writer(|writer| Ok(writer.execute_batch(set)?)).expect("a newer version");
    let copy = home.folder.path().join("after");
    std::fs::create_dir_all(&copy).expect("folder is created");
    let files = ["chats.sqlite", "chats.sqlite-wal"];
    let read = |folder: &Path| files.map(|name| std::fs::read(folder.join(name)).expect("a file"));
    for name in files {
        std::fs::copy(home.folder.path().join(name), copy.join(name)).expect("file is copied");
    }
    let before = read(&copy);
    let refused = Chats::open(&copy.join("chats.sqlite"), 5);
    assert!(matches!(refused, Err(ChatsError::Newer { found: 999, .. })), "{refused:?}");
    assert!(read(&copy) == before, "the file and its log are unchanged");
}

#[test]
fn full_disk_and_read_only_file_have_their_own_errors() {
    let home = Home::new();
    home.create("c", 1);
    let set = |sql: &str| home.chats.with_writer(|writer| Ok(writer.execute_batch(sql)?)).expect("set");
    let add = || home.chats.add("c", None, &[message("user", &"long ".repeat(100_000), 2)], 2);
    set("PRAGMA max_page_count = 1");
    let full = add();
    assert!(matches!(full, Err(ChatsError::DiskFull)), "{full:?}");
    set("PRAGMA max_page_count = 1000000; PRAGMA query_only = ON");
    let read_only = add();
    assert!(matches!(read_only, Err(ChatsError::ReadOnly)), "{read_only:?}");
    set("PRAGMA query_only = OFF");
    assert_eq!(add().expect("written").len(), 1, "the next write succeeds");
}
