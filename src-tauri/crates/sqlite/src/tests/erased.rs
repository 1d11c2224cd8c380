//! A deleted row is in no file of the folder: pages, index, write-ahead log, backups, damaged files.

use super::*;

const SECRET: &str = "zqxjmarker";

/// Returns the files that have the secret. The index stores a word without the beginning that it shares with the word before.
fn occurrences(folder: &Path) -> Vec<String> {
    let has_secret = |path: &&PathBuf| {
        let bytes = std::fs::read(path).expect("a file is readable");
        bytes.windows(SECRET.len() - 3).any(|window| window == &SECRET.as_bytes()[3..])
    };
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files(folder).iter().filter(has_secret).map(name).collect()
}

fn delete(home: &Home, row: i64) {
    home.write(&format!(
        "DELETE FROM found WHERE rowid = {row}; DELETE FROM notes WHERE row = {row};
         DELETE FROM computed WHERE rowid = {row}; INSERT INTO erasures VALUES ({row});"
    ));
}

#[test]
fn deleted_row_is_in_no_file() {
    let home = Home::new();
    for n in 0..200 {
        home.add(&format!("note {n} {}", "granite ".repeat(n % 50)));
    }
    home.add(&format!("{SECRET} {}", format!("{SECRET} ").repeat(900)));
    for n in 0..200 {
        home.add(&format!("note {n} {}", "granite ".repeat(n % 50)));
    }
    home.database.back_up_if_due(5).expect("a backup");
    let folder = home.folder.path();
    let copies = [
        "notes.damaged.4.sqlite",
        "notes.damaged.4.sqlite-wal",
        "notes.bak-partial",
        "notes.repaired",
        "notes.v1.3.bak",
    ];
    for name in copies {
        std::fs::copy(folder.join("notes.v3.5.bak"), folder.join(name)).expect("a copy");
    }
    let own = ["notes.2026.bak", "notes.damaged.old.sqlite", "notes.txt", "other.v3.5.bak"];
    for name in own {
        std::fs::write(folder.join(name), "not Cairn's").expect("a file of the user");
    }
    let before = occurrences(folder);
    let in_log = before.iter().any(|name| name.ends_with("-wal") && !name.contains("damaged"));
    assert!(in_log && before.len() > copies.len(), "the log has the secret, else this test finds nothing: {before:?}");
    home.database.erase_deleted(6).expect("nothing to erase");
    assert_eq!(occurrences(folder), before, "nothing was deleted");
    delete(&home, 201);
    assert_ne!(occurrences(folder), Vec::<String>::new(), "the erasure is later");
    home.database.erase_deleted(7).expect("erased");
    let none = Vec::<String>::new();
    assert_eq!(occurrences(folder), none, "with the database open");
    let mut expected = vec!["notes.sqlite", "notes.sqlite-shm", "notes.sqlite-wal", "notes.v3.7.bak"];
    expected.extend(own);
    expected.sort_unstable();
    assert_eq!(names(folder), expected, "a new backup replaces the others, and files of the user stay");
    let Home { folder, database } = home;
    assert_eq!(notes(&database).expect("rows").len(), 400, "the other rows stay");
    drop(database);
    assert_eq!(occurrences(folder.path()), none, "after the database was closed");
}

#[test]
fn erasure_waits_for_other_readers_and_is_repeated() {
    let home = Home::new();
    home.add(SECRET);
    let other = Connection::open(home.folder.path().join("notes.sqlite")).expect("the file");
    other.execute_batch("BEGIN; SELECT count(*) FROM notes;").expect("a read transaction");
    delete(&home, 1);
    let refused = home.database.erase_deleted(5);
    assert!(matches!(refused, Err(FileError::LogInUse)), "{refused:?}");
    assert_ne!(occurrences(home.folder.path()), Vec::<String>::new(), "the reader needs the log");
    drop(other);
    home.database.erase_deleted(6).expect("erased");
    assert_eq!(occurrences(home.folder.path()), Vec::<String>::new(), "the reader has ended");
}
