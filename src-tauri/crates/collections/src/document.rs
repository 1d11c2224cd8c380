//! Documents of a collection, and their chunks.
//!
//! A document is added in two steps, because reading its text takes time: [`CollectionStore::begin_document`] stores its name, and
//! [`CollectionStore::store_text`] all its chunks in one transaction.

use cairn_wire::app::documents::DocumentFormat;
use cairn_wire::{ErrorBody, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::limits::{MAX_CHUNKS, MAX_DOCUMENTS, MAX_TEXT_BYTES};
use crate::{Chunk, CollectionStore, CollectionsError, stored_collection};

/// A document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// Id of the document.
    pub id: String,
    /// File name.
    pub name: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// When it was added.
    pub added_at: Timestamp,
    /// State of its text.
    pub state: DocumentState,
    /// Format, if its text was read.
    pub format: Option<DocumentFormat>,
    /// Pages, sheets or slides.
    pub pages: Option<u32>,
    /// Number of chunks.
    pub chunks: u64,
    /// Chunks in scripts without spaces.
    pub dense_chunks: u64,
    /// Chunks with vectors.
    pub vectors: u64,
}

/// State of a document's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentState {
    /// It is being read.
    Reading,
    /// It is stored.
    Stored,
    /// It could not be read. `None` if the process ended before.
    Failed(Option<ErrorBody>),
}

/// A document before its text is read.
#[derive(Debug, Clone, Copy)]
pub struct NewDocument<'a> {
    /// File name.
    pub name: &'a str,
    /// Digest of the file. A collection has each file once.
    pub digest: &'a str,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The text of a document.
#[derive(Debug, Clone)]
pub struct NewText {
    /// Format of the file.
    pub format: DocumentFormat,
    /// Pages, sheets or slides.
    pub pages: Option<u32>,
    /// Its chunks.
    pub chunks: Vec<Chunk>,
}

/// Columns of [`read`].
const SELECT: &str = "SELECT row, name, bytes, added_ms, state, error, format, pages, chunks, dense_chunks, vectors
    FROM documents WHERE collection = ?1";

impl CollectionStore {
    /// Returns the documents of a collection, in the order in which they were added.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be read.
    pub fn documents(&self, collection: &str) -> Result<Vec<StoredDocument>, CollectionsError> {
        self.read(|connection| {
            let (row, _) = stored_collection::find(connection, collection)?;
            let mut statement = connection.prepare_cached(&format!("{SELECT} ORDER BY row"))?;
            let rows = statement.query_map([row], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Returns a document of a collection.
    ///
    /// # Errors
    /// If there is no such collection or document, or the file cannot be read.
    pub fn document(&self, collection: &str, id: &str) -> Result<StoredDocument, CollectionsError> {
        self.read(|connection| find(connection, stored_collection::find(connection, collection)?.0, id))
    }

    /// Stores a document before its text is read. Returns it, and whether it is new: if the collection has the same file already,
    /// that document is returned. A document of the same file that failed is replaced.
    ///
    /// # Errors
    /// If there is no such collection, it has too many documents, or the file cannot be written.
    pub fn begin_document(
        &self,
        collection: &str,
        document: NewDocument<'_>,
        now_ms: i64,
    ) -> Result<(StoredDocument, bool), CollectionsError> {
        let NewDocument { name, digest, bytes } = document;
        self.write(|connection| {
            let (row, _) = stored_collection::find(connection, collection)?;
            let sql = format!("{SELECT} AND digest = ?2");
            let same = connection.prepare_cached(&sql)?.query_row(params![row, digest], read).optional()?;
            match same {
                Some(StoredDocument { state: DocumentState::Failed(_), id, .. }) => {
                    delete(connection, row, row_id(&id)?)?;
                }
                Some(same) => return Ok((same, false)),
                None => {}
            }
            let sql = "SELECT count(*) FROM documents WHERE collection = ?1";
            let count: i64 = connection.prepare_cached(sql)?.query_row([row], |row| row.get(0))?;
            if count.unsigned_abs() >= MAX_DOCUMENTS {
                return Err(CollectionsError::Full { what: "documents of a collection", limit: MAX_DOCUMENTS });
            }
            let sql = "INSERT INTO documents (collection, name, digest, bytes, added_ms, state)
                VALUES (?1, ?2, ?3, ?4, ?5, 'reading')";
            connection.prepare_cached(sql)?.execute(params![row, name, digest, signed(bytes), now_ms])?;
            Ok((find(connection, row, &connection.last_insert_rowid().to_string())?, true))
        })
    }

    /// Stores the text of a document that is being read, all of it or none.
    ///
    /// # Errors
    /// If the document was deleted, the collection would have too many chunks or too much text, or the file cannot be written.
    pub fn store_text(&self, collection: &str, id: &str, text: &NewText) -> Result<StoredDocument, CollectionsError> {
        let format = serde_json::to_string(&text.format)?;
        self.write(|connection| {
            let (row, stored) = stored_collection::find(connection, collection)?;
            let document = find(connection, row, id)?;
            let text_bytes: u64 = text.chunks.iter().map(|chunk| chunk.text.len() as u64).sum();
            if stored.chunks + text.chunks.len() as u64 > MAX_CHUNKS {
                return Err(CollectionsError::Full { what: "chunks of a collection", limit: MAX_CHUNKS });
            }
            if stored.text_bytes + text_bytes > MAX_TEXT_BYTES {
                return Err(CollectionsError::Full { what: "bytes of text of a collection", limit: MAX_TEXT_BYTES });
            }
            let id_row = row_id(id)?;
            store_chunks(connection, row, id_row, &document.name, &text.chunks)?;
            let dense = text.chunks.iter().filter(|chunk| chunk.is_dense).count();
            let sql = "UPDATE documents SET state = 'stored', error = NULL, format = ?2, pages = ?3, text_bytes = ?4,
                chunks = ?5, dense_chunks = ?6 WHERE row = ?1";
            let (chunks, dense) = (signed(text.chunks.len() as u64), signed(dense as u64));
            let values = params![id_row, format, text.pages, signed(text_bytes), chunks, dense];
            connection.prepare_cached(sql)?.execute(values)?;
            find(connection, row, id)
        })
    }

    /// Marks a document without readable text.
    ///
    /// # Errors
    /// If the document was deleted, or the file cannot be written.
    pub fn fail_document(&self, collection: &str, id: &str, error: &ErrorBody) -> Result<(), CollectionsError> {
        let error = serde_json::to_string(error)?;
        self.write(|connection| {
            let (row, _) = stored_collection::find(connection, collection)?;
            find(connection, row, id)?;
            let sql = "UPDATE documents SET state = 'failed', error = ?2 WHERE row = ?1";
            connection.prepare_cached(sql)?.execute(params![row_id(id)?, error])?;
            Ok(())
        })
    }

    /// Removes a document from a collection.
    ///
    /// # Errors
    /// If there is no such collection or document, or the file cannot be written.
    pub fn remove_document(&self, collection: &str, id: &str) -> Result<(), CollectionsError> {
        self.write(|connection| {
            let (row, _) = stored_collection::find(connection, collection)?;
            find(connection, row, id)?;
            delete(connection, row, row_id(id)?)
        })
    }
}

/// Marks documents that were being read when the process ended. Returns their number.
pub(crate) fn mark_interrupted(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("UPDATE documents SET state = 'failed', error = NULL WHERE state = 'reading'", [])
}

/// Returns the rows of all documents of a collection.
pub(crate) fn rows(connection: &Connection, collection: i64) -> Result<Vec<i64>, CollectionsError> {
    let mut statement = connection.prepare_cached("SELECT row FROM documents WHERE collection = ?1")?;
    let rows = statement.query_map([collection], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes a document with its chunks, their vectors and index entries. Requests the erasure of their copies.
pub(crate) fn delete(connection: &Connection, collection: i64, document: i64) -> Result<(), CollectionsError> {
    let chunks = "(SELECT row FROM chunks WHERE document = ?1)";
    connection.execute(&format!("DELETE FROM found_chunks WHERE rowid IN {chunks}"), [document])?;
    let sql = format!("DELETE FROM vectors WHERE collection = ?2 AND chunk IN {chunks}");
    connection.execute(&sql, [document, collection])?;
    connection.prepare_cached("DELETE FROM chunks WHERE document = ?1")?.execute([document])?;
    connection.prepare_cached("DELETE FROM documents WHERE row = ?1")?.execute([document])?;
    connection.prepare_cached("INSERT INTO erasures (document) VALUES (?1)")?.execute([document])?;
    Ok(())
}

/// Returns the text of a chunk for the index and the embedding model: with the name of the document and, in later chunks of a
/// section, its heading. A passage often does not repeat its subject.
pub(crate) fn with_context(name: &str, place: &cairn_wire::app::documents::PartPlace, text: &str) -> String {
    use cairn_wire::app::documents::PartPlace;
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem).replace(['_', '-'], " ");
    match place {
        PartPlace::Heading { text: heading } if !text.starts_with('#') => format!("{stem}\n{heading}\n{text}"),
        PartPlace::Sheet { name } => format!("{stem}\n{name}\n{text}"),
        _ => format!("{stem}\n{text}"),
    }
}

fn store_chunks(
    connection: &Connection,
    collection: i64,
    document: i64,
    name: &str,
    chunks: &[Chunk],
) -> Result<(), CollectionsError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO chunks (collection, document, ordinal, place, text, start, end, is_dense)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (ordinal, Chunk { place, text, start, end, is_dense }) in chunks.iter().enumerate() {
        let [ordinal, start, end] = [ordinal, *start, *end].map(|number| signed(number as u64));
        let place_json = serde_json::to_string(place)?;
        insert.execute(params![collection, document, ordinal, place_json, text, start, end, is_dense])?;
        index(connection, connection.last_insert_rowid(), &with_context(name, place, text))?;
    }
    Ok(())
}

/// Adds a chunk to the full-text index.
pub(crate) fn index(connection: &Connection, row: i64, text: &str) -> rusqlite::Result<()> {
    let cairn_words::Indexed { words, singles } = cairn_words::indexed(text);
    let sql = "INSERT INTO found_chunks (rowid, words, singles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row, words, singles]).map(drop)
}

fn find(connection: &Connection, collection: i64, id: &str) -> Result<StoredDocument, CollectionsError> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} AND row = ?2"))?;
    let found = statement.query_row([collection, row_id(id)?], read).optional()?;
    found.ok_or_else(|| CollectionsError::DocumentNotFound(id.to_owned()))
}

/// Returns the row of a document by its id.
fn row_id(id: &str) -> Result<i64, CollectionsError> {
    id.parse().map_err(|_| CollectionsError::DocumentNotFound(id.to_owned()))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredDocument> {
    let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
    // An error or a format of another version may be unreadable; the document is still listed.
    let json = |column: usize| row.get::<_, Option<String>>(column);
    let state = match row.get_ref(4)?.as_str()? {
        "stored" => DocumentState::Stored,
        "reading" => DocumentState::Reading,
        _ => DocumentState::Failed(json(5)?.and_then(|error| serde_json::from_str(&error).ok())),
    };
    Ok(StoredDocument {
        id: row.get::<_, i64>(0)?.to_string(),
        name: row.get(1)?,
        bytes: count(2)?,
        added_at: Timestamp::from_unix_ms(row.get(3)?),
        state,
        format: json(6)?.and_then(|format| serde_json::from_str(&format).ok()),
        pages: row.get(7)?,
        chunks: count(8)?,
        dense_chunks: count(9)?,
        vectors: count(10)?,
    })
}
