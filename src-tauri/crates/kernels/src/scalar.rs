//! The variant that runs on every processor. The other variants are compared with it.
//!
//! Float arithmetic is the portable code with separate rounding. Quantised rows are unpacked to one byte per element and
//! small integers per sub-block, whatever the type, and multiplied as the canonical order says, with a fused
//! multiply-add done in software where need be: so its bits are those of every other variant.

use cairn_gguf::DType;
use cairn_gguf::dtype::UnpackedRow;

use crate::format::{Columns, Format};
use crate::matmul::MatMul;
use crate::portable::{self, arith::Plain};
use crate::variant::Variant;

/// The last row of the table.
pub(crate) const SCALAR: Variant = Variant {
    name: "scalar",
    numerics_rev: 1,
    usable: |_| true,
    convert: |format, x, column| portable::quantise::convert(format, x, column),
    matmul,
    decode_row,
    rms_norm: |x, weight, eps, out| portable::elementwise::rms_norm::<Plain>(x, weight, eps, out),
    rms_norm_in_place: |x, weight, eps| portable::elementwise::rms_norm_in_place::<Plain>(x, weight, eps),
    rope: |x, cos, sin, interleaved| portable::elementwise::rope::<Plain>(x, cos, sin, interleaved),
    layer_norm: |x, weight, eps| portable::elementwise::layer_norm::<Plain>(x, weight, eps),
    softmax: |x| portable::elementwise::softmax::<Plain>(x),
    swiglu: |gate, up| portable::activation::swiglu::<Plain>(gate, up),
    geglu: |gate, up| portable::activation::geglu::<Plain>(gate, up),
    clamped_glu: |gate, up, alpha, limit| portable::activation::clamped_glu::<Plain>(gate, up, alpha, limit),
    gelu: |x| portable::activation::gelu::<Plain>(x),
    gelu_erf: |x| portable::activation::gelu_erf::<Plain>(x),
    sigmoid: |x| portable::activation::sigmoid::<Plain>(x),
    silu: |x| portable::activation::silu::<Plain>(x),
    relu_squared: |x| portable::activation::relu_squared(x),
    scale: |x, factor| portable::elementwise::scale(x, factor),
    softcap: |x, cap| portable::activation::softcap::<Plain>(x, cap),
    mul: |x, y| portable::elementwise::mul(x, y),
    add: |x, y| portable::elementwise::add(x, y),
    add_scaled: |x, y, factor| portable::elementwise::add_scaled::<Plain>(x, y, factor),
    add_product: |x, y, z| portable::elementwise::add_product::<Plain>(x, y, z),
    delta: |step| portable::delta::step::<Plain>(step),
    scan: |scan| portable::scan::scan::<Plain>(scan),
    encode_row: |dtype, x, row| portable::rows::encode::<Plain>(dtype, x, row),
    attend: |span| portable::attention::attend::<Plain>(span),
    merge: |before, span| portable::attention::merge::<Plain>(before, span),
    finish: |sum, acc| portable::attention::finish(sum, acc),
};

/// Decodes one row. All variants use it: one row per token is no work worth a second version.
pub(crate) fn decode_row(dtype: DType, row: &[u8], out: &mut [f32]) {
    dtype.decode(row, out);
}

fn matmul(m: MatMul<'_>) {
    m.check();
    match m.columns.format {
        Format::F32 => portable::float::matmul::<Plain, 1, 1>(m),
        Format::Q8x32 | Format::Q8x256 => quantised(m),
    }
}

/// Products with quantised weights. The variants with vector kernels come here with the types for which they have none;
/// all of this is inlined, so that it is compiled with their instructions.
#[inline(always)]
pub(crate) fn quantised(mut m: MatMul<'_>) {
    match m.columns.format {
        Format::Q8x32 => rows(&mut m, dot_32),
        Format::Q8x256 => rows(&mut m, dot_256),
        Format::F32 => unreachable!("floats are no quantised weights"),
    }
}

/// Unpacks each row once and multiplies it with every column.
#[inline(always)]
fn rows(m: &mut MatMul<'_>, dot: impl Fn(&UnpackedRow, &Columns<'_>, usize) -> f32) {
    let mut unpacked = std::mem::take(&mut m.scratch.row);
    for row in 0..m.rows {
        m.dtype.unpack(m.row(row), &mut unpacked);
        for column in 0..m.columns.count {
            m.out[column * m.out_stride + row] = dot(&unpacked, &m.columns, column);
        }
    }
    m.scratch.row = unpacked;
}

#[inline(always)]
fn products(weights: &[i8], values: &[u8]) -> i32 {
    weights.iter().zip(values).map(|(&w, &a)| i32::from(w) * i32::from(a as i8)).sum()
}

#[inline(always)]
fn dot_32(row: &UnpackedRow, columns: &Columns<'_>, column: usize) -> f32 {
    let column = columns.q8x32(column);
    // Elements that share a scale of the weights, and a sum.
    let group = if row.scales.len() > column.scales.len() { 16 } else { 32 };
    let mut acc = 0.0f32;
    for (index, (quants, scale)) in row.quants.chunks_exact(group).zip(&row.scales).enumerate() {
        let (block, at) = (index * group / 32, index * group % 32);
        let dot = products(quants, &column.values[block][at..at + group]);
        let a_scale = f32::from_le_bytes(column.scales[block]);
        acc = (dot as f32).mul_add(scale * a_scale, acc);
        if let Some(minimum) = row.minimum_scales.get(index) {
            let sum = i32::from_le_bytes(column.sums[block]);
            acc = (sum as f32).mul_add(minimum * a_scale, acc);
        }
    }
    acc
}

#[inline(always)]
fn dot_256(row: &UnpackedRow, columns: &Columns<'_>, column: usize) -> f32 {
    let column = columns.q8x256(column);
    let mut acc = 0.0f32;
    for (block, values) in column.values.iter().enumerate() {
        let quants = row.quants[256 * block..256 * (block + 1)].as_chunks::<16>().0;
        let groups = quants.iter().zip(values.as_chunks::<16>().0);
        let scales = &row.sub_scales[16 * block..16 * (block + 1)];
        let dot: i32 = groups.zip(scales).map(|((w, a), scale)| scale * products(w, a)).sum();
        let scale = f32::from_le_bytes(column.scales[block]);
        acc = (dot as f32).mul_add(row.scales[block] * scale, acc);
        if let Some(minimum_scale) = row.minimum_scales.get(block) {
            let sums = column.sums[block].as_chunks::<2>().0;
            let minima = &row.sub_minima[16 * block..16 * (block + 1)];
            let sum: i32 = minima.iter().zip(sums).map(|(m, &sum)| m * i32::from(i16::from_le_bytes(sum))).sum();
            acc = (sum as f32).mul_add(-(minimum_scale * scale), acc);
        }
    }
    acc
}
