//! A small format in real files: migrations, damage at all places, erasure.

mod damaged;
mod erased;
mod migrated;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;

/// Migrations of the format.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE notes (row INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL) STRICT;
    CREATE TABLE computed (text TEXT NOT NULL) STRICT;
    CREATE VIRTUAL TABLE found USING fts5 (text, content = '', contentless_delete = 1);
",
    "CREATE TABLE erasures (note INTEGER PRIMARY KEY) STRICT;",
    "ALTER TABLE notes ADD COLUMN color TEXT NOT NULL DEFAULT 'red';",
];

static FORMAT: Format = Format {
    schema: Schema { application_id: 77, migrations: MIGRATIONS, not_in_backups: "DELETE FROM computed" },
    main_table: "notes",
    indexes: &["found"],
    tables: &[Table { name: "notes", has_stable_rows: true, backup_condition: "" }],
    begin: |connection| connection.execute("UPDATE notes SET color = 'grey' WHERE color = 'open'", []),
    finish_repair: |connection, _| {
        connection.execute_batch(
            "DELETE FROM notes WHERE row IN (SELECT note FROM erasures);
             INSERT INTO found (rowid, text) SELECT row, text FROM notes;",
        )
    },
};

struct Home {
    folder: tempfile::TempDir,
    database: Database,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = Database::open(&folder.path().join("notes.sqlite"), &FORMAT, 1).expect("a new file");
        Self { folder, database }
    }

    fn write(&self, sql: &str) {
        self.database.write(|connection| Ok::<_, FileError>(connection.execute_batch(sql)?)).expect("written");
    }

    fn add(&self, text: &str) {
        self.write(&format!(
            "INSERT INTO notes (text) VALUES ('{text}');
             INSERT INTO found (rowid, text) VALUES (last_insert_rowid(), '{text}');
             INSERT INTO computed VALUES ('{text}');"
        ));
    }
}

/// Returns the rows of a file.
fn notes(database: &Database) -> Result<Vec<(i64, String)>, FileError> {
    database.read(|connection| {
        let mut statement = connection.prepare("SELECT row, text FROM notes ORDER BY row")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder exists").flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files(folder).into_iter().map(name).collect()
}
