//! Vectors of chunks: which ones are missing, and exact comparison with the vector of a query.
//!
//! A vector has 16-bit floats: their error of 0.05 % of an element is far below the differences between neighbours, and they need
//! half of the time to read.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use cairn_wire::app::documents::PartPlace;
use half::f16;
use half::slice::HalfFloatSliceExt;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{CollectionStore, CollectionsError, document, stored_collection};

/// A chunk that has no vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChunk {
    /// Row of the chunk, for [`CollectionStore::store_vectors`].
    pub row: i64,
    /// Text for the embedding model: that of the chunk, after the name of the document and the heading.
    pub text: String,
}

impl CollectionStore {
    /// Prepares a collection for vectors of the model with this digest. Deletes those of another model.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be written.
    pub fn begin_vectors(&self, collection: &str, model: &str) -> Result<(), CollectionsError> {
        let is_current = |stored: &stored_collection::StoredCollection| stored.vector_model.as_deref() == Some(model);
        if is_current(&self.collection(collection)?) {
            return Ok(());
        }
        self.write(|connection| {
            let (row, stored) = stored_collection::find(connection, collection)?;
            match is_current(&stored) {
                true => Ok(()),
                false => stored_collection::delete_vectors(connection, row, Some(model)),
            }
        })
    }

    /// Returns chunks without a vector, in the order in which they were added. `reads_dense` is whether the model reads scripts
    /// without spaces; otherwise their chunks are left out.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be read.
    pub fn pending_chunks(
        &self,
        collection: &str,
        reads_dense: bool,
        limit: usize,
    ) -> Result<Vec<PendingChunk>, CollectionsError> {
        self.read(|connection| {
            let (row, _) = stored_collection::find(connection, collection)?;
            // Only documents that miss vectors are searched for chunks.
            let mut statement = connection.prepare_cached(
                "SELECT chunks.row, documents.name, chunks.place, chunks.text
                FROM documents CROSS JOIN chunks ON chunks.document = documents.row
                WHERE documents.collection = ?1 AND (?2 OR chunks.is_dense = 0)
                AND documents.vectors < documents.chunks - iif(?2, 0, documents.dense_chunks)
                AND NOT EXISTS (SELECT 1 FROM vectors WHERE collection = ?1 AND chunk = chunks.row)
                ORDER BY documents.row, chunks.ordinal LIMIT ?3",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query(params![row, reads_dense, limit])?;
            let mut pending = Vec::new();
            while let Some(row) = rows.next()? {
                let place: PartPlace = serde_json::from_str(&row.get::<_, String>(2)?)?;
                let (name, text) = (row.get::<_, String>(1)?, row.get::<_, String>(3)?);
                pending.push(PendingChunk { row: row.get(0)?, text: document::with_context(&name, &place, &text) });
            }
            Ok(pending)
        })
    }

    /// Stores vectors of chunks, in one transaction. Returns whether they were stored: not if the collection has another model now.
    /// A chunk that was deleted is left out.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be written.
    pub fn store_vectors(
        &self,
        collection: &str,
        model: &str,
        vectors: &[(i64, Vec<f32>)],
    ) -> Result<bool, CollectionsError> {
        self.write(|connection| {
            let (row, stored) = stored_collection::find(connection, collection)?;
            if stored.vector_model.as_deref() != Some(model) {
                return Ok(false);
            }
            let mut document_of = connection.prepare_cached("SELECT document FROM chunks WHERE row = ?1")?;
            let mut insert = connection
                .prepare_cached("INSERT OR IGNORE INTO vectors (collection, chunk, vector) VALUES (?1, ?2, ?3)")?;
            let mut count = connection
                .prepare_cached("UPDATE documents SET vectors = vectors + 1 WHERE row = ?1 AND collection = ?2")?;
            for (chunk, vector) in vectors {
                let document: Option<i64> = document_of.query_row([chunk], |row| row.get(0)).optional()?;
                let Some(document) = document else { continue };
                if insert.execute(params![row, chunk, encode(vector)])? > 0 {
                    count.execute([document, row])?;
                }
            }
            Ok(true)
        })
    }

    /// Returns whether the model with this digest reads scripts without spaces, if that was stored.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn reads_dense(&self, model: &str) -> Result<Option<bool>, CollectionsError> {
        self.read(|connection| {
            let sql = "SELECT reads_dense FROM models WHERE digest = ?1";
            Ok(connection.prepare_cached(sql)?.query_row([model], |row| row.get(0)).optional()?)
        })
    }

    /// Stores whether the model with this digest reads scripts without spaces.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_reads_dense(&self, model: &str, reads_dense: bool) -> Result<(), CollectionsError> {
        self.write(|connection| {
            let sql = "INSERT OR REPLACE INTO models (digest, reads_dense) VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute(params![model, reads_dense])?;
            Ok(())
        })
    }
}

fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect()
}

/// A chunk with the cosine of its vector. Greater means nearer; of equal ones, the older chunk.
#[derive(Debug, PartialEq)]
struct Near {
    cosine: f32,
    chunk: Reverse<i64>,
}

impl Eq for Near {}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cosine.total_cmp(&other.cosine).then(self.chunk.cmp(&other.chunk))
    }
}

/// Returns the rows of the nearest chunks, nearest first.
pub(crate) fn nearest(
    connection: &Connection,
    collection: i64,
    query: &[f32],
    limit: usize,
) -> Result<Vec<i64>, CollectionsError> {
    let mut statement = connection.prepare_cached("SELECT chunk, vector FROM vectors WHERE collection = ?1")?;
    let mut rows = statement.query([collection])?;
    let mut halves = vec![f16::ZERO; query.len()];
    let mut floats = vec![0.0; query.len()];
    let mut heap: BinaryHeap<Reverse<Near>> = BinaryHeap::new();
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        if bytes.len() != 2 * query.len() {
            continue;
        }
        for (half, bytes) in halves.iter_mut().zip(bytes.chunks_exact(2)) {
            *half = f16::from_le_bytes([bytes[0], bytes[1]]);
        }
        halves.convert_to_f32_slice(&mut floats);
        let near = Near { cosine: dot(&floats, query), chunk: Reverse(row.get(0)?) };
        if heap.len() < limit {
            heap.push(Reverse(near));
        } else if heap.peek().is_some_and(|Reverse(farthest)| near > *farthest) {
            heap.pop();
            heap.push(Reverse(near));
        }
    }
    Ok(heap.into_sorted_vec().into_iter().map(|Reverse(near)| near.chunk.0).collect())
}

/// Sums of eight lanes, so that the compiler can use vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (a_lanes, b_lanes) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_lanes.zip(b_lanes) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_product_has_all_elements() {
        let a: Vec<f32> = (0..19_u8).map(f32::from).collect();
        assert_eq!(dot(&a, &a), (0..19_u16).map(|n| f32::from(n * n)).sum::<f32>());
        assert_eq!(dot(&[], &[]), 0.0);
    }

    #[test]
    fn encoded_vectors_have_a_small_error() {
        let bytes = encode(&[0.1, -0.7, 1.0]);
        let halves: Vec<f32> = bytes.chunks(2).map(|bytes| f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()).collect();
        assert!((halves[0] - 0.1).abs() < 1e-4 && (halves[1] + 0.7).abs() < 5e-4 && halves[2] == 1.0, "{halves:?}");
    }
}
