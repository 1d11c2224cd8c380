//! A file that is damaged at any place is repaired, with and without a backup.

use std::io::{Seek, SeekFrom, Write};

use proptest::prelude::*;

use super::*;

const NOTES: i64 = 300;
/// Rows of two pages.
const ROWS_OF_TWO_PAGES: usize = 30;

fn text(row: i64) -> String {
    format!("note {row} {}", "granite ".repeat(35))
}

/// Writes and closes a file of [`NOTES`] rows.
fn closed(has_backup: bool) -> (tempfile::TempDir, PathBuf) {
    let Home { folder, database } = Home::new();
    let insert = |connection: &Connection| {
        let mut insert = connection.prepare("INSERT INTO notes (text) VALUES (?1)")?;
        (1..=NOTES).try_for_each(|row| insert.execute([text(row)]).map(drop))?;
        Ok::<_, FileError>(connection.execute_batch("INSERT INTO found (rowid, text) SELECT row, text FROM notes")?)
    };
    database.write(insert).expect("written");
    if has_backup {
        database.back_up_if_due(2).expect("a backup");
    }
    let path = folder.path().join("notes.sqlite");
    (folder, path)
}

fn overwrite(path: &Path, from: u64, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.seek(SeekFrom::Start(from)).expect("the offset");
    file.write_all(bytes).expect("written");
}

/// Opens a damaged file and repairs it. Returns the database and the number of rows that are as before.
fn repaired(path: &Path) -> Result<(Database, usize), FileError> {
    let before = std::fs::read(path).expect("the file");
    let database = Database::open(path, &FORMAT, 5)?;
    if database.last_repair().is_none() {
        // Damage in a text is not a fault of the file.
        database.report_damage("found by the test".to_owned());
        assert!(notes(&database).is_err(), "a damaged file is not used");
        database.repair_if_damaged(5).expect("a repair").expect("a new file");
    }
    let repair = database.last_repair().expect("the repair is reported");
    database.read(quick_check).expect("the new file is valid");
    assert_eq!(std::fs::read(&repair.set_aside).expect("the damaged file"), before, "the damaged file is kept");
    let rows = notes(&database).expect("all rows are readable");
    assert_eq!(repair.rows("notes"), rows.len() as u64, "the number of rows");
    let is_same = |(row, found): &&(i64, String)| text(*row) == *found;
    let same = rows.iter().filter(is_same).count();
    let sql = "SELECT count(*) FROM found WHERE found MATCH 'granite'";
    let found = database.read(|connection| Ok::<i64, FileError>(connection.query_row(sql, [], |row| row.get(0))?));
    assert!(found.expect("the index") >= same as i64, "the index is filled");
    database
        .write(|connection| Ok::<_, FileError>(connection.execute("INSERT INTO notes (text) VALUES ('x')", [])?))?;
    assert_eq!(database.repair_if_damaged(6).expect("no damage"), None, "one repair");
    Ok((database, same))
}

#[test]
fn damage_at_each_place_is_repaired() {
    let check = |what: &str, has_backup: bool, damage: &dyn Fn(&Path, u64), least: usize| {
        let (folder, path) = closed(has_backup);
        damage(&path, path.metadata().expect("the file").len());
        let (_, same) = repaired(&path).expect(what);
        assert!(same >= least, "{what}: {same} rows of {least}");
        drop(folder);
    };
    let all = NOTES as usize;
    let header = |path: &Path, _| overwrite(path, 0, &[0xa5; 100]);
    let page_size = |path: &Path, _| overwrite(path, 16, &[0xa5; 2]);
    let first_page = |path: &Path, _| overwrite(path, 0, &[0xa5; 4096]);
    let middle = |path: &Path, length| overwrite(path, length / 2, &[0xa5; 4096]);
    let truncated = |path: &Path, length| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
        file.set_len(length / 2).expect("truncated");
    };
    let short = |path: &Path, _| std::fs::write(path, b"SQLite format 3").expect("written");
    let zeros = |path: &Path, length| std::fs::write(path, vec![0; length as usize]).expect("written");
    for (what, damage, least) in [
        ("header", &header as &dyn Fn(&Path, u64), 0),
        ("page size", &page_size, 0),
        ("first page", &first_page, 0),
        ("middle", &middle, all - ROWS_OF_TWO_PAGES),
        ("truncated", &truncated, 1),
        ("short", &short, 0),
        ("zeros", &zeros, 0),
    ] {
        check(what, false, damage, least);
        check(what, true, damage, all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_damage_is_repaired(at in 0.0..1.0, length in 1_usize..600, byte in any::<u8>(), has_backup in any::<bool>()) {
        let (_folder, path) = closed(has_backup);
        let end = path.metadata().expect("the file").len();
        overwrite(&path, (at * end as f64) as u64, &vec![byte; length]);
        let before = std::fs::read(&path).expect("the file");
        match repaired(&path) {
            Ok((_, same)) if has_backup => prop_assert!(same + ROWS_OF_TWO_PAGES >= NOTES as usize, "{} rows", same),
            Ok(_) => {}
            // The damage is in the version or the id of the program.
            Err(FileError::Newer { .. } | FileError::Foreign(_)) => {
                prop_assert!(std::fs::read(&path).expect("the file") == before, "it is unchanged");
            }
            Err(error) => prop_assert!(false, "{error:?}"),
        }
    }
}

#[test]
fn erased_row_is_not_restored_from_a_backup() {
    let home = Home::new();
    for text in ["one", "two"] {
        home.add(text);
    }
    home.database.back_up_if_due(2).expect("a backup");
    home.write("DELETE FROM notes WHERE row = 2; INSERT INTO erasures VALUES (2);");
    let Home { folder, database } = home;
    drop(database);
    let path = folder.path().join("notes.sqlite");
    let connection = Connection::open(&path).expect("the file");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'notes'";
    let root: i64 = connection.query_row(sql, [], |row| row.get(0)).expect("the table");
    drop(connection);
    overwrite(&path, (root.unsigned_abs() - 1) * 4096, &[0xa5; 4096]);
    let database = Database::open(&path, &FORMAT, 5).expect("the file is repaired");
    let repair = database.last_repair().expect("the start reads the table");
    assert!(repair.used_backup, "{repair:?}");
    assert_eq!(notes(&database).expect("rows"), [(1, "one".to_owned())], "the deleted row stays deleted");
    let home = Home { folder, database };
    home.add("three");
    assert_eq!(notes(&home.database).expect("rows")[1].0, 3, "no number is used again");
}
