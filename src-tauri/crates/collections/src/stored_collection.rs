//! The rows of collections.

use cairn_wire::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::CollectionsError;

/// A collection as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCollection {
    /// Id of the collection.
    pub id: String,
    /// Name of the collection.
    pub name: String,
    /// Name of the embedding model.
    pub model: Option<String>,
    /// Digest of the model of all vectors.
    pub vector_model: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Number of documents, also of those that failed.
    pub documents: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Chunks in scripts without spaces.
    pub dense_chunks: u64,
    /// Chunks with vectors.
    pub vectors: u64,
    /// Bytes of all chunks.
    pub text_bytes: u64,
}

/// Columns of [`read`].
pub(crate) const SELECT: &str = "
    SELECT collections.row, collections.id, collections.name, model, vector_model, created_ms, count(documents.row),
        total(documents.chunks), total(dense_chunks), total(vectors), total(text_bytes)
    FROM collections LEFT JOIN documents ON documents.collection = collections.row";

/// Returns the row of a collection, and the collection.
pub(crate) fn find(connection: &Connection, id: &str) -> Result<(i64, StoredCollection), CollectionsError> {
    let sql = format!("{SELECT} WHERE collections.id = ?1 GROUP BY collections.row");
    let found = connection.prepare_cached(&sql)?.query_row([id], read).optional()?;
    found.ok_or_else(|| CollectionsError::NotFound(id.to_owned()))
}

/// Deletes all vectors of a collection. Those that follow are of the model with this digest.
pub(crate) fn delete_vectors(connection: &Connection, row: i64, model: Option<&str>) -> Result<(), CollectionsError> {
    connection.prepare_cached("DELETE FROM vectors WHERE collection = ?1")?.execute([row])?;
    connection.prepare_cached("UPDATE documents SET vectors = 0 WHERE collection = ?1")?.execute([row])?;
    let sql = "UPDATE collections SET vector_model = ?2 WHERE row = ?1";
    connection.prepare_cached(sql)?.execute(params![row, model])?;
    Ok(())
}

/// Reads a row of [`SELECT`].
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<(i64, StoredCollection)> {
    // SQLite's `total` returns a float, which is 0 for no rows.
    let total = |column: usize| row.get::<_, f64>(column).map(|total| total as u64);
    let collection = StoredCollection {
        id: row.get(1)?,
        name: row.get(2)?,
        model: row.get(3)?,
        vector_model: row.get(4)?,
        created_at: Timestamp::from_unix_ms(row.get(5)?),
        documents: row.get::<_, i64>(6)?.unsigned_abs(),
        chunks: total(7)?,
        dense_chunks: total(8)?,
        vectors: total(9)?,
        text_bytes: total(10)?,
    };
    Ok((row.get(0)?, collection))
}
