//! Repair of a damaged file: `cairn-sqlite` copies the readable rows, and this module makes collections of them.
//!
//! A document without all its chunks stays searchable and is marked as failed, so that the user can add it again. Chunks
//! without their document become a document with a new name. All vectors are computed again.

use std::fmt;
use std::path::PathBuf;

use cairn_sqlite::raise_sequence;
use cairn_wire::ErrorBody;
use cairn_wire::app::documents::PartPlace;
use rusqlite::Connection;

use crate::document;

/// First version with the table `erasures`.
const ERASURES_VERSION: usize = 2;
/// Error of a document that has lost text.
const INCOMPLETE: &str = "part of its text was lost in a damaged file; remove the document and add it again";

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Damage that SQLite reported.
    pub reason: String,
    /// Path of the damaged file.
    pub set_aside: PathBuf,
    /// Number of collections in the new file.
    pub collections: u64,
    /// Number of documents in the new file.
    pub documents: u64,
    /// Whether some rows are from a backup. False if the new file is from an earlier attempt that failed.
    pub used_backup: bool,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, set_aside, collections, documents, used_backup } = self;
        let source = if *used_backup { ", some from a backup" } else { "" };
        write!(
            f,
            "repaired the damaged database of the collections ({reason}): it now has {collections} collections with {documents} \
             documents{source}; vectors are computed again; the damaged file is kept as {}",
            set_aside.display()
        )
    }
}

impl From<cairn_sqlite::Repair> for Repair {
    fn from(repair: cairn_sqlite::Repair) -> Self {
        let (collections, documents) = (repair.rows("collections"), repair.rows("documents"));
        let cairn_sqlite::Repair { reason, set_aside, used_backup, .. } = repair;
        Self { reason, set_aside, collections, documents, used_backup }
    }
}

/// Completes a new file of this version with the readable rows.
pub(crate) fn finish(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    if version >= ERASURES_VERSION {
        delete_erased(connection)?;
    }
    connect_rows(connection)?;
    mark_incomplete(connection)?;
    index_all(connection)
}

/// Deletes rows that were deleted before, and makes sure that new rows do not get their numbers.
fn delete_erased(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM chunks WHERE document IN (SELECT document FROM erasures) OR collection IN (SELECT collection FROM erasures);
         DELETE FROM documents WHERE row IN (SELECT document FROM erasures) OR collection IN (SELECT collection FROM erasures);
         DELETE FROM collections WHERE row IN (SELECT collection FROM erasures);",
    )?;
    let sql = "SELECT coalesce(max(collection), 0), coalesce(max(document), 0) FROM erasures";
    let (collection, document) = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    raise_sequence(connection, "collections", collection)?;
    raise_sequence(connection, "documents", document)
}

/// Creates documents and collections for rows without them. Corrects values that readers reject.
fn connect_rows(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "INSERT INTO documents (row, collection, name, digest, bytes, added_ms, state, chunks)
             SELECT document, min(collection), printf('Recovered document %d', document), printf('recovered:%d', document),
                 sum(octet_length(text)), (SELECT coalesce(max(added_ms), 0) FROM documents), 'stored', count(*) + 1 FROM chunks
             WHERE NOT EXISTS (SELECT 1 FROM documents WHERE row = chunks.document) GROUP BY document;
         INSERT INTO collections (row, id, name, created_ms)
             SELECT collection, printf('%024x', collection), printf('Recovered collection %d', collection), min(added_ms)
             FROM documents WHERE NOT EXISTS (SELECT 1 FROM collections WHERE row = documents.collection) GROUP BY collection;
         UPDATE chunks SET collection = documents.collection
             FROM documents WHERE documents.row = chunks.document AND documents.collection <> chunks.collection;
         UPDATE chunks SET ordinal = 0 WHERE ordinal NOT BETWEEN 0 AND 0xffffffff;
         UPDATE documents SET pages = NULL WHERE pages NOT BETWEEN 0 AND 0xffffffff;
         UPDATE documents SET vectors = 0;
         UPDATE collections SET vector_model = NULL;",
    )
}

/// Marks documents without all their chunks, and counts the chunks of each document.
fn mark_incomplete(connection: &Connection) -> rusqlite::Result<()> {
    // A document is listed also without its error.
    let error = serde_json::to_string(&ErrorBody::text(INCOMPLETE)).ok();
    connection.execute(
        "UPDATE documents SET state = 'failed', error = ?1
         WHERE state = 'stored' AND chunks <> (SELECT count(*) FROM chunks WHERE document = documents.row)",
        [error],
    )?;
    connection.execute_batch(
        "UPDATE documents SET (chunks, dense_chunks, text_bytes) = (
             SELECT count(*), coalesce(sum(is_dense <> 0), 0), coalesce(sum(octet_length(text)), 0)
             FROM chunks WHERE document = documents.row);",
    )
}

/// Fills the full-text index. Replaces places that are not valid JSON.
fn index_all(connection: &Connection) -> rusqlite::Result<()> {
    let mut correct = connection.prepare("UPDATE chunks SET place = ?2 WHERE row = ?1")?;
    let mut chunks = connection.prepare(
        "SELECT chunks.row, documents.name, place, text FROM chunks JOIN documents ON documents.row = chunks.document
         ORDER BY chunks.row",
    )?;
    let mut rows = chunks.query([])?;
    while let Some(row) = rows.next()? {
        let chunk = row.get(0)?;
        let place = match serde_json::from_str(row.get_ref(2)?.as_str()?) {
            Ok(place) => place,
            Err(_) => {
                let whole = PartPlace::Whole;
                correct.execute((chunk, serde_json::to_string(&whole).unwrap_or_default()))?;
                whole
            }
        };
        let text = document::with_context(row.get_ref(1)?.as_str()?, &place, row.get_ref(3)?.as_str()?);
        document::index(connection, chunk, &text)?;
    }
    Ok(())
}
