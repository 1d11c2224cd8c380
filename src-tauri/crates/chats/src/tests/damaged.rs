//! Damaged files and routine backups.

use std::fs;
use std::path::PathBuf;

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Home {
    fn path(&self) -> PathBuf {
        self.folder.path().join("chats.sqlite")
    }

    fn files(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder exists").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.contains(part));
        names.sort();
        names
    }
}

#[test]
fn backup_is_made_once_a_day_and_two_stay() {
    let home = Home::new();
    home.chats.back_up_if_due(DAY_MS).expect("nothing to back up");
    assert_eq!(home.files(".bak"), [""; 0], "no chats yet");
    home.create("a", 1);
    for (now, expected) in [(2, 1), (3, 1), (DAY_MS + 2, 2), (2 * DAY_MS + 3, 2), (DAY_MS, 2)] {
        home.chats.back_up_if_due(now).expect("a backup");
        assert_eq!(home.files(".bak").len(), expected, "at {now}: {:?}", home.files(".bak"));
    }
}

#[test]
fn damaged_file_is_replaced_by_the_newest_valid_backup() {
    let home = Home::new();
    home.create("a", 1);
    home.add("a", None, "user", "bread", 2);
    home.chats.back_up_if_due(5).expect("a backup");
    home.create("b", 6);
    let path = home.path();
    fs::write(path.with_extension("v2.9.bak"), "no database").expect("an invalid backup, which is newer");
    let Home { folder, chats } = home;
    drop(chats);
    let before = fs::read(&path).expect("the file");
    fs::write(&path, [&[0xff; 8192], &before[8192..]].concat()).expect("the file is damaged");

    let chats = Chats::open(&path, 10).expect("the backup replaces the file");
    let recovery = chats.recovery().expect("the file was damaged");
    assert_eq!(recovery.backup_ms, Some(5), "the newest valid backup");
    assert!(chats.chat("a").is_ok() && chats.chat("b").is_err(), "the chats of the backup");
    assert_eq!(fs::read(&recovery.set_aside).expect("it is set aside")[8192..], before[8192..], "unchanged");
    drop(chats);
    assert_eq!(Chats::open(&path, 11).expect("the file is valid").recovery(), None, "one recovery");

    let own = path.with_extension("sqlite.bak");
    fs::write(&own, "a copy that the user made").expect("the folder is writable");
    let chats = Chats::open(&path, 12).expect("the file is valid");
    chats.delete("a").expect("deleted");
    fs::remove_file(own).expect("the user's copy stays");
    let left = fs::read_dir(folder.path()).expect("the folder").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| !name.to_string_lossy().starts_with("chats.sqlite")).collect();
    assert_eq!(left, [""; 0], "a deletion removes the damaged file and the backups, which have the chat");
}

#[test]
fn damaged_file_without_backup_is_set_aside() {
    let home = Home::new();
    let path = home.path();
    drop(home.chats);
    fs::write(&path, [7; 9000]).expect("the file is damaged");
    let chats = Chats::open(&path, 10).expect("an empty file");
    assert_eq!(chats.recovery().map(|recovery| recovery.backup_ms), Some(None), "no backup");
    chats.create("a", &NewChatRequest::default(), 11).expect("chats can be written");
}

#[test]
fn damage_inside_the_file_is_found_after_a_kill() {
    let home = Home::new();
    home.create("a", 1);
    (0..400).for_each(|n| drop(home.add("a", None, "user", &format!("{n} {}", "bread ".repeat(50)), 2)));
    home.chats.truncate_log();
    home.create("b", 3);
    let copy = home.folder.path().join("after");
    fs::create_dir_all(&copy).expect("folder is created");
    let mut bytes = fs::read(home.path()).expect("the file");
    let middle = bytes.len() / 8192 * 4096;
    bytes[middle..middle + 4096].fill(0x55);
    fs::write(copy.join("chats.sqlite"), bytes).expect("the file is damaged");
    fs::copy(home.folder.path().join("chats.sqlite-wal"), copy.join("chats.sqlite-wal")).expect("the log");
    let chats = Chats::open(&copy.join("chats.sqlite"), 4).expect("the file is replaced");
    assert!(chats.recovery().is_some(), "the check finds the damage");
}
