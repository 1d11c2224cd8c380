//! Adapters of checkpoints in the layout of PEFT, and the checkpoints with the adapters merged into their weights.

use cairn_gguf::DType;
use serde_json::{Map, Value, json};

use super::{SourceTensor, safetensors};
use crate::random::Random;

/// Types of tensors in checkpoints.
const DTYPES: [&str; 5] = ["F32", "F16", "BF16", "U8", "F8_E4M3"];

/// Specification of an adapter.
pub struct AdapterSpec {
    /// Entries of `adapter_config.json` beside `peft_type`.
    pub config: Value,
    /// Rank of a module.
    pub rank: fn(&str) -> u64,
    /// Factor of a module's product.
    pub scale: fn(&str) -> f32,
    /// Whether a module is changed.
    pub changes: fn(&str) -> bool,
    /// Seed of the matrices.
    pub seed: u64,
}

/// Files of an adapter, and those of the checkpoint that its base becomes.
pub struct AdaptedCheckpoint {
    /// Files of the adapter.
    pub adapter: Vec<(String, Vec<u8>)>,
    /// Files of the checkpoint with `W + scale * B A` as its weights.
    pub merged: Vec<(String, Vec<u8>)>,
}

/// Creates an adapter of a checkpoint with F32 weights.
///
/// # Panics
/// When a file is not a safetensors file of [`super::checkpoint`].
pub fn adapter(checkpoint: &[(String, Vec<u8>)], spec: &AdapterSpec) -> AdaptedCheckpoint {
    let (mut pairs, mut merged) = (Vec::new(), Vec::new());
    for (name, contents) in checkpoint {
        if !name.ends_with(".safetensors") {
            merged.push((name.clone(), contents.clone()));
            continue;
        }
        let mut tensors = read(contents);
        for tensor in &mut tensors {
            let &[rows, columns] = &tensor.shape[..] else { continue };
            let module = tensor.name.strip_suffix(".weight").unwrap_or_default().to_owned();
            if !(spec.changes)(&module) {
                continue;
            }
            let (rank, scale) = ((spec.rank)(&module), (spec.scale)(&module));
            let mut random = Random::from_name(spec.seed, &module);
            let mut matrix = |rows: u64, columns: u64| -> Vec<f32> {
                (0..rows * columns).map(|_| random.normal() / (rank as f32).sqrt() / 4.0).collect()
            };
            let (a, b) = (matrix(rank, columns), matrix(rows, rank));
            let weights = tensor.bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four")));
            let sum = |(at, weight): (usize, f32)| {
                let (row, column) = (at / columns as usize, at % columns as usize);
                let (rank, columns) = (rank as usize, columns as usize);
                weight + scale * (0..rank).map(|inner| b[row * rank + inner] * a[inner * columns + column]).sum::<f32>()
            };
            tensor.bytes = bytes(weights.enumerate().map(sum));
            for (half, shape, values) in [("A", [rank, columns], a), ("B", [rows, rank], b)] {
                let name = format!("base_model.model.{module}.lora_{half}.weight");
                let bytes = bytes(values.into_iter());
                pairs.push(SourceTensor { name, dtype: DType::F32.name(), shape: shape.to_vec(), bytes });
            }
        }
        merged.push((name.clone(), safetensors(&tensors)));
    }
    let mut config = spec.config.clone();
    config["peft_type"] = json!("LORA");
    let adapter = vec![
        ("adapter_config.json".to_owned(), config.to_string().into_bytes()),
        ("adapter_model.safetensors".to_owned(), safetensors(&pairs)),
    ];
    AdaptedCheckpoint { adapter, merged }
}

fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// Reads a safetensors file of F32 tensors; tensors of other types keep their bytes.
fn read(file: &[u8]) -> Vec<SourceTensor> {
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&file[8..8 + length]).expect("a valid header");
    let numbers =
        |value: &Value| -> Vec<u64> { value.as_array().into_iter().flatten().flat_map(Value::as_u64).collect() };
    let tensor = |(name, entry): (&String, &Value)| {
        let offsets = numbers(&entry["data_offsets"]);
        let bytes = file[8 + length..][offsets[0] as usize..offsets[1] as usize].to_vec();
        let dtype = DTYPES.into_iter().find(|dtype| entry["dtype"] == *dtype).expect("a type of checkpoints");
        SourceTensor { name: name.clone(), dtype, shape: numbers(&entry["shape"]), bytes }
    };
    header.iter().filter(|(name, _)| *name != "__metadata__").map(tensor).collect()
}
