//! Other orders of rows, columns and matrices in checkpoints.

use crate::spec::ModelSpec;

/// Returns the rows in a checkpoint of a matrix's rows in GGUF, if their order is another one. Linear attention has as
/// many heads as attention, of the same size.
pub(super) fn rows(family: &str, part: &str, rows: usize, spec: &ModelSpec) -> Option<Vec<usize>> {
    let count = |value: u64| value as usize;
    let (heads, kv_heads, dim) = (count(spec.heads), count(spec.kv_heads), count(spec.head_dim));
    // `first` and `size` of the part of a group of `group` rows.
    let part_of = |groups: usize, group: usize, first: usize, size: usize| -> Vec<usize> {
        (0..groups).flat_map(|nth| nth * group + first..nth * group + first + size).collect()
    };
    let joined = |parts: &[Vec<usize>]| Some(parts.concat());
    // Heads of values of linear attention that share a key: apart in GGUF.
    let tiled = |first: usize, size: usize| -> Vec<usize> {
        let shared = heads / kv_heads;
        let row = |nth: usize, group: usize| first + (group * shared + nth) * size;
        (0..shared)
            .flat_map(|nth| (0..kv_heads).flat_map(move |group| row(nth, group)..row(nth, group) + size))
            .collect()
    };
    match (family, part) {
        ("gptneox", "attn_qkv") => joined(&[0, 1, 2].map(|nth| part_of(heads, 3 * dim, nth * dim, dim))),
        ("falcon", "attn_qkv") => {
            let shared = heads / kv_heads * dim;
            let group = shared + 2 * dim;
            let parts = [(0, shared), (shared, dim), (shared + dim, dim)];
            joined(&parts.map(|(first, size)| part_of(kv_heads, group, first, size)))
        }
        ("qwen35" | "qwen35moe", "attn_qkv" | "ssm_conv1d") => {
            let keys = 2 * kv_heads * dim;
            joined(&[(0..keys).collect(), tiled(keys, dim)])
        }
        ("qwen35" | "qwen35moe", "attn_gate") => Some(tiled(0, dim)),
        ("qwen35" | "qwen35moe", "ssm_beta" | "ssm_alpha" | "ssm_a" | "ssm_dt") => Some(tiled(0, 1)),
        // Columns.
        ("qwen35" | "qwen35moe", "ssm_out") => Some(tiled(0, dim)),
        // Both tensors of GGUF.
        ("qwen3next", "attn_qkv") => {
            let values = heads / kv_heads * dim;
            let group = 2 * dim + 2 * values;
            let parts = [(0, dim), (dim, dim), (2 * dim, values), (2 * dim + values, values)];
            joined(&parts.map(|(first, size)| part_of(kv_heads, group, first, size)))
        }
        _ => None,
    }
    .inspect(|order| assert_eq!(order.len(), rows, "{family}: rows of {part}"))
}

/// Moves rows of GGUF to their places in a checkpoint.
pub(super) fn scatter(values: &[f32], columns: usize, order: &[usize]) -> Vec<f32> {
    let mut moved = vec![0.0; values.len()];
    for (row, &to) in values.chunks_exact(columns).zip(order) {
        moved[to * columns..(to + 1) * columns].copy_from_slice(row);
    }
    moved
}

/// Moves rows of a checkpoint to their places in GGUF.
pub(super) fn gather(values: &[f32], columns: usize, order: &[usize]) -> Vec<f32> {
    order.iter().flat_map(|&from| values[from * columns..(from + 1) * columns].to_vec()).collect()
}

/// Swaps rows and columns of each matrix `[rows, columns]`.
pub(super) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let matrix = |matrix: &[f32]| -> Vec<f32> {
        (0..columns)
            .flat_map(|column| (0..rows).map(move |row| (row, column)))
            .map(|(row, column)| matrix[row * columns + column])
            .collect()
    };
    values.chunks_exact(rows * columns).flat_map(matrix).collect()
}

/// Joins the matrices `[first, columns]` and `[second, columns]` of each head or expert.
pub(super) fn joined(first: &[f32], second: &[f32], count: usize) -> Vec<f32> {
    let parts = first.chunks_exact(first.len() / count).zip(second.chunks_exact(second.len() / count));
    parts.flat_map(|(first, second)| [first, second].concat()).collect()
}
