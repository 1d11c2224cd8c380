//! Writes a planned tensor: reads some rows of its source, decodes, reorders and encodes them.
//!
//! Memory use does not depend on the size of the model. A unit of rows that are reordered together is in memory at once: a
//! head with a limit of elements, or the matrix of an expert that is transposed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use cairn_gguf::DType;
use rayon::prelude::*;

use super::error::{ConvertError, invalid};
use super::family::{Layout, Select, total};
use super::files::CheckpointFile;
use super::float8::{self, Scales};
use super::plan::{BLOCK_BYTES, Data, Matrix, PlannedTensor, differs};
use super::safetensors::{Format, SourceTensor};

/// Elements that are read at once.
const SLAB_ELEMENTS: u64 = 2 << 20;
/// Bytes that are compared at once.
const COMPARED_BYTES: u64 = 4 << 20;
/// Elements of one task: whole blocks of all types.
const TASK_ELEMENTS: usize = 64 << 10;
/// Larger magnitudes cannot be represented in F16.
const MAX_F16: f32 = 65_504.0;
/// Ends of names of limits of values in towers: infinity is none.
const LIMITS: [&str; 4] = [".input_min", ".input_max", ".output_min", ".output_max"];
/// Below this magnitude no encoder's scale overflows an f16. Larger values are decoded after encoding and checked.
const SAFE_MAGNITUDE: f32 = 32_768.0;

/// Writes a tensor. `on_done` is called every few megabytes with the number of bytes written.
pub(super) fn write(
    files: &[CheckpointFile],
    tensor: &PlannedTensor,
    out: &mut dyn Write,
    on_done: &mut dyn FnMut(u64),
) -> io::Result<()> {
    if let Some((first, copies)) = tensor.copies.split_first() {
        copies.iter().try_for_each(|copy| compare(files, first, copy))?;
    }
    match &tensor.data {
        Data::Matrices { matrices, layout } => {
            for matrix in matrices {
                write_matrices(files, matrix, layout, tensor.dtype, &mut |bytes| {
                    out.write_all(bytes)?;
                    on_done(bytes.len() as u64);
                    Ok(())
                })?;
            }
        }
        Data::Blocks { blocks, scales, select } => write_blocks(files, blocks, scales, *select, out, on_done)?,
        Data::Values(values) => {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            out.write_all(&bytes)?;
            on_done(bytes.len() as u64);
        }
    }
    Ok(())
}

/// Checks that a tensor has the bytes of another one of the same size.
fn compare(files: &[CheckpointFile], first: &SourceTensor, copy: &SourceTensor) -> io::Result<()> {
    let mut start = 0;
    while start < first.bytes {
        let count = COMPARED_BYTES.min(first.bytes - start);
        if read_bytes(&files[first.file].file, first, start, count)?
            != read_bytes(&files[copy.file].file, copy, start, count)?
        {
            let reason = differs(copy, first, "value");
            return Err(invalid_data(invalid(&files[copy.file].name, reason)));
        }
        start += count;
    }
    Ok(())
}

fn write_matrices(
    files: &[CheckpointFile],
    matrix: &Matrix,
    layout: &Layout,
    dtype: DType,
    emit: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let &Matrix { count, rows, columns, .. } = matrix;
    let file = &files[matrix.tensor.file].file;
    let scales: Option<Scales> = match &matrix.scale {
        Some(scale) => Some(scale.read(&files[scale.tensor.file].file, count * rows, columns)?),
        None => None,
    };
    let &Layout { shift, factor, is_logarithm, .. } = layout;
    let plain = Layout { shift, factor, is_logarithm, ..Layout::PLAIN };
    let is_flat = *layout == plain && scales.is_none();
    let (first, last) = match layout.select {
        _ if layout.is_transposed || is_flat => (0, rows),
        Select::FirstHalf => (0, rows / 2),
        Select::SecondHalf => (rows / 2, rows),
        Select::All | Select::Even | Select::Odd => (0, rows),
    };
    // Without an order of rows, elements need not be read by rows.
    let (first, last, columns) = if is_flat { (0, rows * columns, 1) } else { (first, last, columns) };
    let whole = first..last;
    let ranges = layout.rows.as_deref().unwrap_or(std::slice::from_ref(&whole));
    let unit = match layout {
        Layout { is_transposed: true, .. } => total(ranges),
        Layout { heads: Some(heads), .. } => rows / heads,
        Layout { select: Select::Even | Select::Odd, .. } => 2,
        _ => 1,
    };
    let slab = (SLAB_ELEMENTS / columns.max(1) / unit.max(1)).max(1) * unit;
    let (mut values, mut part) = (Vec::new(), Vec::new());
    for (index, slab) in (0..count).flat_map(|index| slabs(ranges, slab).into_iter().map(move |slab| (index, slab))) {
        values.clear();
        for range in &slab {
            let start = index * matrix.rows * matrix.columns + range.start * columns;
            read(file, &matrix.tensor, start, (range.end - range.start) * columns, &mut part)?;
            if let Some(scales) = &scales {
                scales.apply(index * rows + range.start, columns as usize, &mut part);
            }
            values.append(&mut part);
        }
        if let Some(columns_of) = &layout.columns {
            values = chosen_columns(&values, columns as usize, columns_of);
        }
        let (slab_rows, columns) = (total(&slab) as usize, values.len() / (total(&slab) as usize).max(1));
        let ordered = order(&values, slab_rows, columns, unit as usize, layout);
        let mut ordered = ordered.unwrap_or_else(|| std::mem::take(&mut values));
        if is_logarithm {
            ordered.iter_mut().for_each(|value| *value = -value.exp());
        }
        if factor != 1.0 {
            ordered.iter_mut().for_each(|value| *value *= factor);
        }
        if shift != 0.0 {
            ordered.iter_mut().for_each(|value| *value += shift);
        }
        for bytes in encode(&ordered, dtype, &matrix.tensor.name).map_err(invalid_data)? {
            emit(&bytes)?;
        }
    }
    Ok(())
}

/// Divides ranges of rows into slabs of `size` rows; the last one may be smaller.
fn slabs(ranges: &[Range<u64>], size: u64) -> Vec<Vec<Range<u64>>> {
    let (mut slabs, mut slab, mut free) = (Vec::new(), Vec::new(), size);
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + free);
            slab.push(start..end);
            free -= end - start;
            start = end;
            if free == 0 {
                slabs.push(std::mem::take(&mut slab));
                free = size;
            }
        }
    }
    slabs.extend((!slab.is_empty()).then_some(slab));
    slabs
}

/// Returns the columns of these ranges of each row, in this order.
fn chosen_columns(values: &[f32], columns: usize, ranges: &[Range<u64>]) -> Vec<f32> {
    let mut chosen = Vec::with_capacity(values.len());
    for row in values.chunks_exact(columns) {
        ranges.iter().for_each(|range| chosen.extend_from_slice(&row[range.start as usize..range.end as usize]));
    }
    chosen
}

/// Reads elements from `start` on.
fn read(file: &File, tensor: &SourceTensor, start: u64, count: u64, values: &mut Vec<f32>) -> io::Result<()> {
    let size = tensor.format.bytes();
    let bytes = read_bytes(file, tensor, start * size, count * size)?;
    values.clear();
    values.resize(count as usize, 0.0);
    match tensor.format {
        Format::Float(dtype) => dtype.decode(&bytes, values),
        Format::E4M3 => float8::decode(&bytes, values),
        Format::Byte | Format::Other(_) => unreachable!("the plan refuses integers"),
    }
    Ok(())
}

/// Reads bytes of a tensor from `start` on.
fn read_bytes(mut file: &File, tensor: &SourceTensor, start: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count as usize];
    file.seek(SeekFrom::Start(tensor.offset + start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Returns the selected rows in the new order; `None` if all rows are in their order.
fn order(values: &[f32], rows: usize, columns: usize, unit: usize, layout: &Layout) -> Option<Vec<f32>> {
    let mut ordered = Vec::with_capacity(values.len());
    if layout.is_transposed {
        let count = layout.select.count(columns as u64)?;
        for column in (0..count).map(|index| layout.select.row(index, columns as u64) as usize) {
            ordered.extend((0..rows).map(|row| values[row * columns + column]));
        }
        return Some(ordered);
    }
    match (layout.heads, layout.select) {
        (Some(_), _) => {
            for head in values.chunks_exact(unit * columns) {
                let (first, second) = head.split_at(head.len() / 2);
                for (first, second) in first.chunks_exact(columns).zip(second.chunks_exact(columns)) {
                    ordered.extend_from_slice(first);
                    ordered.extend_from_slice(second);
                }
            }
        }
        (None, Select::Even | Select::Odd) => {
            let skipped = usize::from(layout.select == Select::Odd);
            values.chunks_exact(columns).skip(skipped).step_by(2).for_each(|row| ordered.extend_from_slice(row));
        }
        (None, Select::All | Select::FirstHalf | Select::SecondHalf) => return None,
    }
    Some(ordered)
}

/// Encodes elements on all threads.
fn encode(values: &[f32], dtype: DType, name: &str) -> Result<Vec<Vec<u8>>, ConvertError> {
    let is_limit = LIMITS.iter().any(|end| name.ends_with(end));
    let encode = |values: &[f32]| {
        // Branch-free check: an infinity is the largest magnitude, and a NaN makes the sum NaN.
        let (largest, sum) =
            values.iter().fold((0.0f32, 0.0f32), |(largest, sum), x| (largest.max(x.abs()), sum + x * 0.0));
        if (!largest.is_finite() || sum.is_nan()) && !(is_limit && values.iter().all(|value| !value.is_nan())) {
            return Err(ConvertError::NotFinite { name: name.to_owned() });
        }
        let too_large = || ConvertError::TooLarge { name: name.to_owned(), dtype };
        if dtype == DType::F16 && largest > MAX_F16 {
            return Err(too_large());
        }
        let mut encoded = Vec::new();
        dtype.encode(values, &mut encoded).expect("types of a mix have encoders and fit the rows");
        if largest >= SAFE_MAGNITUDE && !is_limit {
            let mut decoded = vec![0.0; values.len()];
            dtype.decode(&encoded, &mut decoded);
            if decoded.iter().any(|x| !x.is_finite()) {
                return Err(too_large());
            }
        }
        Ok(encoded)
    };
    values.par_chunks(TASK_ELEMENTS).map(encode).collect()
}

/// Copies blocks of 4-bit floats. A checkpoint has two adjacent elements in a byte, GGUF those with a distance of 16.
fn write_blocks(
    files: &[CheckpointFile],
    blocks: &SourceTensor,
    scales: &SourceTensor,
    select: Select,
    out: &mut dyn Write,
    on_done: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let &[experts, rows, groups, _] = &blocks.shape[..] else { unreachable!("the plan has checked the shape") };
    let slab = (SLAB_ELEMENTS / (groups * BLOCK_BYTES).max(1)).max(1);
    let selected = select.count(rows).expect("the plan has checked the rows");
    let read = |tensor: &SourceTensor, start, count| read_bytes(&files[tensor.file].file, tensor, start, count);
    for expert in 0..experts {
        let mut index = 0;
        while index < selected {
            let count = slab.min(selected - index);
            let (first, last) = (select.row(index, rows), select.row(index + count - 1, rows));
            let (start, span) = (expert * rows + first, last - first + 1);
            let quants = read(blocks, start * groups * BLOCK_BYTES, span * groups * BLOCK_BYTES)?;
            let exponents = read(scales, start * groups, span * groups)?;
            let mut encoded = Vec::with_capacity((count * groups * (BLOCK_BYTES + 1)) as usize);
            for row in (index..index + count).map(|index| (select.row(index, rows) - first) * groups) {
                for group in (row..row + groups).map(|group| group as usize) {
                    encoded.push(exponents[group]);
                    let bytes = &quants[group * BLOCK_BYTES as usize..][..BLOCK_BYTES as usize];
                    let quant = |element: usize| bytes[element / 2] >> (4 * (element % 2)) & 15;
                    encoded.extend((0..BLOCK_BYTES as usize).map(|at| quant(at) | quant(at + 16) << 4));
                }
            }
            out.write_all(&encoded)?;
            on_done(encoded.len() as u64);
            index += count;
        }
    }
    Ok(())
}

fn invalid_data(error: ConvertError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
