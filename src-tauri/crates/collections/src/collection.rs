//! Collections: their names and embedding models.

use cairn_wire::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::limits::{MAX_COLLECTIONS, MAX_NAME_CHARS};
use crate::{CollectionStore, CollectionsError, document};

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
const SELECT: &str = "
    SELECT collections.row, collections.id, collections.name, model, vector_model, created_ms, count(documents.row),
        total(documents.chunks), total(dense_chunks), total(vectors), total(text_bytes)
    FROM collections LEFT JOIN documents ON documents.collection = collections.row";

impl CollectionStore {
    /// Returns all collections, by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn collections(&self) -> Result<Vec<StoredCollection>, CollectionsError> {
        self.read(|connection| {
            let sql = format!("{SELECT} GROUP BY collections.row ORDER BY collections.name, collections.row");
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map([], |row| Ok(read(row)?.1))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Returns a collection.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be read.
    pub fn collection(&self, id: &str) -> Result<StoredCollection, CollectionsError> {
        self.read(|connection| Ok(find(connection, id)?.1))
    }

    /// Creates a collection with an id that no other has.
    ///
    /// # Errors
    /// If the name is invalid, there are too many collections, or the file cannot be written.
    pub fn create(
        &self,
        id: &str,
        name: &str,
        model: Option<&str>,
        now_ms: i64,
    ) -> Result<StoredCollection, CollectionsError> {
        let name = check_name(name)?;
        self.write(|connection| {
            let count: i64 = connection.query_row("SELECT count(*) FROM collections", [], |row| row.get(0))?;
            if count.unsigned_abs() >= MAX_COLLECTIONS {
                return Err(CollectionsError::Full { what: "collections", limit: MAX_COLLECTIONS });
            }
            let sql = "INSERT INTO collections (id, name, model, created_ms) VALUES (?1, ?2, ?3, ?4)";
            connection.prepare_cached(sql)?.execute(params![id, name, model, now_ms])?;
            Ok(find(connection, id)?.1)
        })
    }

    /// Changes the name of a collection.
    ///
    /// # Errors
    /// If there is no such collection, the name is invalid, or the file cannot be written.
    pub fn rename(&self, id: &str, name: &str) -> Result<(), CollectionsError> {
        let name = check_name(name)?;
        self.write(|connection| {
            let (row, _) = find(connection, id)?;
            connection
                .prepare_cached("UPDATE collections SET name = ?2 WHERE row = ?1")?
                .execute(params![row, name])?;
            Ok(())
        })
    }

    /// Changes the embedding model of a collection. Its vectors stay until [`CollectionStore::begin_vectors`] replaces them, unless
    /// there is no model.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be written.
    pub fn set_model(&self, id: &str, model: Option<&str>) -> Result<(), CollectionsError> {
        self.write(|connection| {
            let (row, _) = find(connection, id)?;
            if model.is_none() {
                delete_vectors(connection, row, None)?;
            }
            let sql = "UPDATE collections SET model = ?2 WHERE row = ?1";
            connection.prepare_cached(sql)?.execute(params![row, model])?;
            Ok(())
        })
    }

    /// Deletes a collection with all its documents.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be written.
    pub fn delete(&self, id: &str) -> Result<(), CollectionsError> {
        self.write(|connection| {
            let (row, _) = find(connection, id)?;
            connection.prepare_cached("DELETE FROM vectors WHERE collection = ?1")?.execute([row])?;
            for document in document::rows(connection, row)? {
                document::delete(connection, row, document)?;
            }
            connection.prepare_cached("DELETE FROM collections WHERE row = ?1")?.execute([row])?;
            Ok(())
        })
    }
}

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

fn check_name(name: &str) -> Result<&str, CollectionsError> {
    let name = name.trim();
    match name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        true => Err(CollectionsError::Name),
        false => Ok(name),
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<(i64, StoredCollection)> {
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
