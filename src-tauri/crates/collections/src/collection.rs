//! Collections: their names and embedding models.

use rusqlite::params;

use crate::limits::{MAX_COLLECTIONS, MAX_NAME_CHARS};
use crate::stored_collection::{SELECT, StoredCollection, delete_vectors, find, read};
use crate::{CollectionStore, CollectionsError, document};

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
            connection.prepare_cached("INSERT INTO erasures (collection) VALUES (?1)")?.execute([row])?;
            Ok(())
        })
    }
}

fn check_name(name: &str) -> Result<&str, CollectionsError> {
    let name = name.trim();
    match name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        true => Err(CollectionsError::Name),
        false => Ok(name),
    }
}
