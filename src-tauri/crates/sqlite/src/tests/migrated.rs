//! Files of all versions are migrated. Newer files and those of other programs are rejected unchanged.

use proptest::prelude::*;

use super::*;

fn schema(version: usize) -> Schema<'static> {
    FORMAT.schema.up_to(version)
}

fn version_of(path: &Path) -> i64 {
    let connection = Connection::open(path).expect("the file");
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_survive_migrations_from_any_version_through_any_versions(mut versions in prop::collection::vec(1_usize..=3, 1..6)) {
        versions.sort_unstable();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("notes.sqlite");
        let mut backups = Vec::new();
        let mut last = None;
        for (now_ms, version) in versions.iter().enumerate() {
            let connection = schema(*version).open(&path, now_ms as i64).expect("the file is migrated");
            connection.execute("INSERT INTO notes (text) VALUES (?1)", [now_ms.to_string()]).expect("a row");
            if let Some(last) = last.filter(|last| last < version) {
                backups.push(format!("notes.v{last}.{now_ms}.bak"));
            }
            last = Some(*version);
        }
        let database = Database::open(&path, &FORMAT, 99).expect("the newest version");
        if last != Some(3) {
            backups.push(format!("notes.v{}.99.bak", last.expect("a version")));
        }
        let rows = notes(&database).expect("rows");
        let expected: Vec<_> = (0..versions.len()).map(|n| (n as i64 + 1, n.to_string())).collect();
        prop_assert_eq!(rows, expected);
        drop(database);
        backups.sort();
        let mut found = names(folder.path());
        found.retain(|name| name.ends_with(".bak"));
        prop_assert_eq!(&found, &backups, "a backup before each migration");
        for name in backups {
            let version: i64 = name.split(['v', '.']).nth(2).and_then(|text| text.parse().ok()).expect("a version");
            prop_assert_eq!(version_of(&folder.path().join(&name)), version, "the backup has the old version");
        }
        prop_assert_eq!(version_of(&path), 3);
    }
}

#[test]
fn newer_and_foreign_files_are_rejected_unchanged() {
    let check = |what: &str, sql: &str, is_expected: fn(&FileError) -> bool| {
        let home = Home::new();
        home.add("one");
        home.write(sql);
        let Home { folder, database } = home;
        drop(database);
        let path = folder.path().join("notes.sqlite");
        let before = std::fs::read(&path).expect("the file");
        let error = Database::open(&path, &FORMAT, 5).expect_err(what);
        assert!(is_expected(&error), "{what}: {error:?}");
        assert!(error.to_string().contains("it was not changed"), "{what}: {error}");
        assert!(std::fs::read(&path).expect("the file") == before, "{what}: the file is unchanged");
        let mut names = names(folder.path());
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        assert_eq!(names, ["notes.sqlite"], "{what}: no backup is written");
    };
    let newer = |error: &FileError| matches!(error, FileError::Newer { found: 4 | i64::MIN..0, supported: 3, .. });
    check("one version newer", "PRAGMA user_version = 4", newer);
    check("a negative version", "PRAGMA user_version = -1", newer);
    check("another program", "PRAGMA application_id = 78", |error| matches!(error, FileError::Foreign(_)));
    check("no program", "PRAGMA application_id = 0", |error| matches!(error, FileError::Foreign(_)));
}

#[test]
fn failed_migration_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notes.sqlite");
    drop(schema(1).open(&path, 1).expect("a new file"));
    let broken = [MIGRATIONS[0], "CREATE TABLE more (a TEXT) STRICT; ALTER TABLE nothing ADD COLUMN b TEXT;"];
    let error = Schema { migrations: &broken, ..FORMAT.schema }.open(&path, 2).expect_err("the second statement fails");
    assert!(matches!(error, FileError::Sql(_)), "{error:?}");
    let connection = schema(1).open(&path, 3).expect("the file has the old version");
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'more'";
    let more: i64 = connection.query_row(sql, [], |row| row.get(0)).expect("the query succeeds");
    assert_eq!(more, 0, "the first statement was rolled back");
}

#[test]
fn backup_leaves_out_what_can_be_computed_again() {
    let home = Home::new();
    home.add("granite");
    home.database.back_up_if_due(5).expect("a backup");
    let folder = home.folder.path();
    assert!(names(folder).contains(&"notes.v3.5.bak".to_owned()), "{:?}", names(folder));
    let copy = Connection::open(folder.join("notes.v3.5.bak")).expect("the backup");
    let sql = "SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM computed),
        (SELECT count(*) FROM found WHERE found MATCH 'granite')";
    let counts: (i64, i64, i64) =
        copy.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("the tables");
    assert_eq!(counts, (1, 0, 1), "rows, computed rows and the index");
    let bytes = std::fs::read(folder.join("notes.v3.5.bak")).expect("the backup");
    assert_eq!(bytes.windows(7).filter(|window| window == b"granite").count(), 2, "the row and the index");
}

#[test]
fn unfinished_rows_are_reported_once() {
    let home = Home::new();
    home.add("one");
    home.write("UPDATE notes SET color = 'open'");
    let Home { folder, database } = home;
    assert_eq!(database.unfinished(), 0);
    drop(database);
    let open = || Database::open(&folder.path().join("notes.sqlite"), &FORMAT, 2).expect("the file").unfinished();
    assert_eq!((open(), open()), (1, 0));
}
