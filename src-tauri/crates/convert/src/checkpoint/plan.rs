//! Plan of the new file's tensors: where the elements of each come from, its dimensions and its type.

use std::collections::{BTreeMap, HashMap};

use cairn_gguf::{DType, Gguf, Metadata, Writer};

use super::description::Description;
use super::error::{ConvertError, invalid};
use super::family::{Contents, Family, Layout, Place, Select, total};
use super::files::CheckpointFile;
use super::float8::{Method, Scale};
use super::safetensors::{Format, SourceTensor};
use crate::FileType;
use crate::quantise;

/// Elements of a block of MXFP4, and its bytes in a checkpoint.
pub(super) const BLOCK: u64 = 32;
pub(super) const BLOCK_BYTES: u64 = 16;
/// Most elements of a head's rows, which are in memory at once to be reordered: more than in any model.
const MAX_HEAD_ELEMENTS: u64 = 1 << 28;

/// A planned tensor of the new file.
pub(super) struct PlannedTensor {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// Row length first.
    pub(super) dims: Vec<u64>,
    pub(super) data: Data,
    /// Further tensors of the checkpoint with the same elements, after the first one.
    pub(super) copies: Vec<SourceTensor>,
}

/// Source of a tensor's elements.
pub(super) enum Data {
    /// Matrices of the checkpoint, one after the other.
    Matrices { matrices: Vec<Matrix>, layout: Layout },
    /// Blocks of 4-bit floats and their scales. They are copied, not decoded.
    Blocks { blocks: SourceTensor, scales: SourceTensor, select: Select },
    /// Computed elements.
    Values(Vec<f32>),
}

/// Matrices of one tensor of the checkpoint. Vectors have one row; biases, and vectors with another order, one column.
pub(super) struct Matrix {
    pub(super) tensor: SourceTensor,
    pub(super) scale: Option<Scale>,
    pub(super) count: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
    /// Number of its dimensions in the new file, without that of several matrices.
    rank: usize,
    /// Whether the new tensor has a dimension for several matrices.
    is_many: bool,
}

/// A tensor of the new file of which not all parts are found yet.
struct Pending {
    place: Place,
    /// By the number of the expert.
    matrices: BTreeMap<u32, Matrix>,
    blocks: Option<SourceTensor>,
    scales: Option<SourceTensor>,
    copies: Vec<SourceTensor>,
}

/// Plans the tensors of the new file, in the order of the checkpoint's.
pub(super) fn plan(
    files: &[CheckpointFile],
    sources: Vec<SourceTensor>,
    family: &dyn Family,
    description: &Description<'_>,
) -> Result<Vec<PlannedTensor>, ConvertError> {
    let method = Method::read(&description.config)?;
    let mut scales: HashMap<String, SourceTensor> = HashMap::new();
    let mut weights = Vec::new();
    for source in sources {
        match method.scaled(&source.name) {
            None => weights.push(source),
            Some(None) => {}
            Some(Some(weight)) => drop(scales.insert(weight, source)),
        }
    }
    let (mut pending, mut index): (Vec<Pending>, HashMap<String, usize>) = Default::default();
    for source in weights {
        let scale = match (method, scales.remove(&source.name)) {
            (Method::Scaled { block, .. }, Some(tensor)) => Some(Scale { tensor, block }),
            // A file of weights may be missing. Without the method, 8-bit floats are numbers as they are.
            (Method::Scaled { .. }, None) if source.format == Format::E4M3 => {
                let reason = format!(
                    "the scale of the 8-bit floats `{}` is missing; download all files of the model again",
                    source.name.escape_debug()
                );
                return Err(invalid(&files[source.file].name, reason));
            }
            _ => None,
        };
        for place in family.places(&source.name, description)? {
            if let Some(&at) = index.get(&place.name).filter(|_| place.is_shared) {
                pending[at].add_copy(&source).map_err(|reason| invalid(&files[source.file].name, reason))?;
                continue;
            }
            let at = *index.entry(place.name.clone()).or_insert_with(|| {
                let place = place.clone();
                let copies = Vec::from_iter(place.is_shared.then(|| source.clone()));
                pending.push(Pending { place, matrices: BTreeMap::new(), blocks: None, scales: None, copies });
                pending.len() - 1
            });
            if !pending[at].add(&place, &source, scale.as_ref())? {
                let reason = format!("tensor `{}` occurs twice", source.name.escape_debug());
                return Err(invalid(&files[source.file].name, reason));
            }
        }
    }
    if let Some((weight, scale)) = scales.into_iter().next() {
        let reason = format!("the scale `{}` has no weight `{}`", scale.name.escape_debug(), weight.escape_debug());
        return Err(invalid(&files[scale.file].name, reason));
    }
    if pending.is_empty() {
        return Err(ConvertError::NoTensors);
    }
    let computed = family.computed(description)?.into_iter().map(|(name, values)| {
        let dims = vec![values.len() as u64];
        let (name, data) = (name.to_owned(), Data::Values(values));
        Ok(PlannedTensor { name, dtype: DType::F32, dims, data, copies: Vec::new() })
    });
    computed.chain(pending.into_iter().map(Pending::finish)).collect()
}

/// Sets the type of each tensor for a file of type `target`.
pub(super) fn set_types(
    tensors: &mut [PlannedTensor],
    metadata: &Metadata,
    target: FileType,
) -> Result<(), ConvertError> {
    if target.needs_importance() {
        return Err(ConvertError::NeedsImportance { target });
    }
    let mut writer = Writer::default();
    for (key, value) in metadata.iter().filter(|(key, _)| !key.starts_with("tokenizer.")) {
        writer.set(key, value.clone());
    }
    for tensor in tensors.iter() {
        writer.tensor_from(tensor.name.clone(), tensor.dtype, &tensor.dims, |_| Ok(()))?;
    }
    let (head, length) = writer.head();
    let head = Gguf::parse_header(&head, length)?;
    let types = quantise::types(&head, target, false)?;
    let types: HashMap<&str, DType> = types.into_iter().map(|(tensor, dtype)| (tensor.name.as_str(), dtype)).collect();
    for tensor in tensors.iter_mut().filter(|tensor| matches!(tensor.data, Data::Matrices { .. })) {
        tensor.dtype = types[tensor.name.as_str()];
    }
    Ok(())
}

impl Pending {
    /// Adds a part. Returns false if it is there already.
    fn add(&mut self, place: &Place, source: &SourceTensor, scale: Option<&Scale>) -> Result<bool, ConvertError> {
        let slot = match place.contents {
            Contents::Numbers => {
                let matrix = Matrix::new(source, scale, place)?;
                return Ok(self.matrices.insert(place.expert.unwrap_or(0), matrix).is_none());
            }
            Contents::Blocks => &mut self.blocks,
            Contents::BlockScales => &mut self.scales,
        };
        Ok(slot.replace(source.clone()).is_none())
    }

    /// Adds a tensor that must have the elements of the first one, which are compared when the new tensor is written.
    fn add_copy(&mut self, source: &SourceTensor) -> Result<(), String> {
        let first = &self.copies[0];
        if (first.format, &first.shape) != (source.format, &source.shape) {
            return Err(differs(source, first, "type or shape"));
        }
        self.copies.push(source.clone());
        Ok(())
    }

    fn finish(self) -> Result<PlannedTensor, ConvertError> {
        let Self { place, matrices, blocks, scales, copies } = self;
        let (tensor, dims, dtype, data) = match (blocks, scales) {
            (Some(blocks), Some(scales)) if matrices.is_empty() => {
                let (tensor, select) = (blocks.clone(), place.layout.select);
                let dims = block_dims(&blocks, &scales, select)?;
                (tensor, dims, DType::MXFP4, Data::Blocks { blocks, scales, select })
            }
            (None, None) => {
                let matrices = complete(&place, matrices)?;
                let tensor = matrices[0].tensor.clone();
                let dims = dims(&matrices, &place)?;
                (tensor, dims, DType::F32, Data::Matrices { matrices, layout: place.layout.clone() })
            }
            (Some(found), None) | (None, Some(found)) | (Some(found), Some(_)) => {
                let reason = "a tensor of 4-bit floats needs one of blocks and one of scales".to_owned();
                return Err(ConvertError::Shape { name: found.name, have: found.shape, reason });
            }
        };
        let is_other = |(need, have): (&Option<u64>, &u64)| need.is_some_and(|need| need != *have);
        if !place.dims.is_empty() && (place.dims.len() != dims.len() || place.dims.iter().zip(&dims).any(is_other)) {
            let need: Vec<String> = place
                .dims
                .iter()
                .rev()
                .map(|dim| dim.map_or_else(|| "any".to_owned(), |dim| dim.to_string()))
                .collect();
            let reason = format!("{} needs [{}] by the config", place.name, need.join(", "));
            return Err(ConvertError::Shape { name: tensor.name, have: tensor.shape, reason });
        }
        Ok(PlannedTensor { name: place.name, dtype, dims, data, copies })
    }
}

impl Matrix {
    fn new(source: &SourceTensor, scale: Option<&Scale>, place: &Place) -> Result<Self, ConvertError> {
        let refused = |reason: &str| ConvertError::Shape {
            name: source.name.clone(),
            have: source.shape.clone(),
            reason: format!("{} {reason}", place.name),
        };
        if matches!(source.format, Format::Byte | Format::Other(_)) {
            return Err(ConvertError::Type { name: source.name.clone() });
        }
        let large = || refused("needs fewer elements");
        let layout = &place.layout;
        let (is_bias, is_ordered) = (place.name.ends_with(".bias"), layout.rows.is_some());
        let (count, rows, columns, rank) = match (is_bias, &source.shape[..]) {
            (true, &[rows]) => (1, rows, 1, 1),
            (true, &[count, rows]) => (count, rows, 1, 1),
            (false, &[rows]) if is_ordered => (1, rows, 1, 1),
            (false, &[columns]) => (1, 1, columns, 1),
            // A scalar.
            (false, &[]) => (1, 1, 1, 1),
            (false, &[rows, columns]) => (1, rows, columns, 2),
            // A convolution of single channels.
            (false, &[rows, 1, columns]) if place.is_reshaped => (1, rows, columns, 2),
            (false, &[count, rows, columns]) => (count, rows, columns, 2),
            // A convolution with the shape [rows, channels, times, height, width], or without times.
            (false, &[rows, a, b, c]) if place.is_reshaped => (1, rows, area(&[a, b, c]).ok_or_else(large)?, 2),
            (false, &[rows, a, b, c, d]) if place.is_reshaped => (1, rows, area(&[a, b, c, d]).ok_or_else(large)?, 2),
            _ => return Err(refused("needs a vector, a matrix or matrices of experts")),
        };
        let is_many = place.expert.is_some() || source.shape.len() > rank || layout.split > 1;
        if layout.split == 0 || !rows.is_multiple_of(layout.split) || (layout.split > 1 && count != 1) {
            return Err(refused(&format!("needs rows of {} equal matrices", layout.split)));
        }
        let (all_rows, rows, count) = (rows, rows / layout.split, count * layout.split);
        let lists = [(&layout.rows, rows, "rows"), (&layout.columns, columns, "columns")];
        for (ranges, size, what) in
            lists.into_iter().filter_map(|(list, size, what)| Some((list.as_ref()?, size, what)))
        {
            if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > size) {
                return Err(refused(&format!("needs {what} {} to {} by the config", range.start, range.end)));
            }
        }
        if let Some(scale) = scale {
            if source.shape.len() != 2 {
                return Err(refused("needs a scale for each expert"));
            }
            scale.shape(all_rows, columns).map_err(|reason| refused(&format!("cannot be decoded: {reason}")))?;
        }
        if let Some(heads) = place.layout.heads
            && (heads == 0 || !rows.is_multiple_of(2 * heads))
        {
            return Err(refused(&format!("needs an even number of rows for each of {heads} heads")));
        }
        if let Some(heads) = place.layout.heads
            && (rows / heads).saturating_mul(columns) > MAX_HEAD_ELEMENTS
        {
            return Err(refused(&format!("needs heads of at most {MAX_HEAD_ELEMENTS} elements")));
        }
        Ok(Self { tensor: source.clone(), scale: scale.cloned(), count, rows, columns, rank, is_many })
    }

    /// Returns a matrix that is a tensor of its own.
    pub(super) fn plain(tensor: &SourceTensor, rows: u64, columns: u64) -> Self {
        Self { tensor: tensor.clone(), scale: None, count: 1, rows, columns, rank: 2, is_many: false }
    }

    /// Returns the number of rows and columns in the new file.
    fn selected(&self, layout: &Layout) -> Option<(u64, u64)> {
        let rows = layout.rows.as_ref().map_or(self.rows, |ranges| total(ranges));
        let columns = layout.columns.as_ref().map_or(self.columns, |ranges| total(ranges));
        let (rows, columns) = if layout.is_transposed { (columns, rows) } else { (rows, columns) };
        Some((layout.select.count(rows)?, columns))
    }
}

/// Returns the reason why two tensors are not one tensor of the new file.
pub(super) fn differs(tensor: &SourceTensor, first: &SourceTensor, what: &str) -> String {
    let [name, first] = [tensor, first].map(|tensor| tensor.name.escape_debug());
    format!("tensor `{name}` has another {what} than `{first}`, but the model has one matrix for both")
}

/// Checks that there is a matrix of each expert, of the same shape.
fn complete(place: &Place, matrices: BTreeMap<u32, Matrix>) -> Result<Vec<Matrix>, ConvertError> {
    let first = matrices.values().next().expect("a place has a tensor").tensor.clone();
    let refused = |tensor: &SourceTensor, reason: String| ConvertError::Shape {
        name: tensor.name.clone(),
        have: tensor.shape.clone(),
        reason,
    };
    if place.expert.is_some() && !matrices.keys().copied().eq(0..place.experts) {
        let reason = format!("{} needs experts 0 to {}", place.name, place.experts.saturating_sub(1));
        return Err(refused(&first, reason));
    }
    let matrices: Vec<Matrix> = matrices.into_values().collect();
    if let Some(other) = matrices.iter().find(|other| other.tensor.shape != first.shape) {
        return Err(refused(&other.tensor, format!("other experts have {:?}", first.shape)));
    }
    Ok(matrices)
}

/// Returns the dimensions of a tensor of matrices, row length first.
fn dims(matrices: &[Matrix], place: &Place) -> Result<Vec<u64>, ConvertError> {
    let first = &matrices[0];
    let selected = first.selected(&place.layout).ok_or_else(|| ConvertError::Shape {
        name: first.tensor.name.clone(),
        have: first.tensor.shape.clone(),
        reason: format!("{} needs an even number of rows", place.name),
    });
    let (rows, columns) = selected?;
    let count = first.count.saturating_mul(matrices.len() as u64);
    // One of both is 1 in a vector.
    let mut dims = if first.rank == 1 { vec![rows.saturating_mul(columns)] } else { vec![columns, rows] };
    dims.extend(first.is_many.then_some(count));
    match place.dims.iter().copied().collect::<Option<Vec<u64>>>() {
        Some(declared) if place.is_reshaped && area(&declared) == area(&dims) => Ok(declared),
        _ => Ok(dims),
    }
}

/// Returns the number of elements with these dimensions.
fn area(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

/// Returns the dimensions of a tensor of 4-bit blocks, row length first.
fn block_dims(blocks: &SourceTensor, scales: &SourceTensor, select: Select) -> Result<Vec<u64>, ConvertError> {
    let are_bytes = blocks.format == Format::Byte && scales.format == Format::Byte;
    match (&blocks.shape[..], &scales.shape[..]) {
        (&[experts, rows, groups, BLOCK_BYTES], scales) if are_bytes && scales == [experts, rows, groups] => {
            let rows = select.count(rows).filter(|_| groups.checked_mul(BLOCK).is_some());
            rows.map(|rows| vec![groups * BLOCK, rows, experts])
        }
        _ => None,
    }
    .ok_or_else(|| ConvertError::Shape {
        name: blocks.name.clone(),
        have: blocks.shape.clone(),
        reason: format!(
            "blocks need bytes in the shape [experts, rows, groups, {BLOCK_BYTES}], and scales without the last; they \
             have {:?}",
            scales.shape
        ),
    })
}
