//! Random tensors. Quantised types get random valid blocks directly, which is 100 times faster than quantising floats
//! and needs no encoder.
//!
//! **Scale.** A matrix of deviation `1 / sqrt(inputs)` keeps the variance of a normalised vector. Queries and keys are
//! a little larger, so that attention selects rows instead of averaging. For embedding and output see
//! [`crate::embedding`].

use std::io::{self, Write};

use cairn_gguf::DType;
use cairn_gguf::dtype::Scales;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4};
use half::f16;

use crate::random::Random;

/// Elements whose signs change together: a block of the smaller types, a sub-block of the K-quants.
pub const GROUP: usize = 32;

/// Maximum number of bytes written at a time.
const BATCH_BYTES: usize = 1 << 16;

/// Writes `elements` random weights of mean 0 and the given standard deviation as blocks of `dtype`.
///
/// # Errors
/// Those of `out`.
///
/// # Panics
/// When `dtype` is not a type for weights, or `elements` are not whole blocks.
pub fn write_matrix(
    dtype: DType,
    elements: u64,
    deviation: f32,
    random: &mut Random,
    out: &mut dyn Write,
) -> io::Result<()> {
    assert!(dtype.is_weight(), "{dtype} is not a type for weights");
    assert!(elements.is_multiple_of(dtype.block() as u64), "{elements} elements are not whole blocks of {dtype}");
    let mut left = elements / dtype.block() as u64;
    let batch = BATCH_BYTES / dtype.block_bytes();
    let mut bytes = Vec::with_capacity(BATCH_BYTES);
    while left > 0 {
        let blocks = left.min(batch as u64);
        bytes.clear();
        bytes.resize(blocks as usize * dtype.block_bytes(), 0);
        fill(dtype, deviation, random, &mut bytes);
        out.write_all(&bytes)?;
        left -= blocks;
    }
    Ok(())
}

/// Fills `blocks` with random weights, as [`write_matrix`] does.
pub(crate) fn fill(dtype: DType, deviation: f32, random: &mut Random, blocks: &mut [u8]) {
    for block in blocks.chunks_exact_mut(dtype.block_bytes()) {
        fill_block(dtype, deviation, random, block);
    }
}

/// Returns `elements` numbers around `mean` with a deviation of 10 %, like weights of norms.
pub fn vector(elements: u64, mean: f32, random: &mut Random) -> Vec<f32> {
    (0..elements).map(|_| mean * (1.0 + 0.1 * random.normal())).collect()
}

/// Fills one block with random quants of mean 0 and about the given deviation.
fn fill_block(dtype: DType, deviation: f32, random: &mut Random, block: &mut [u8]) {
    // The deviation of n equally likely neighbouring integers is sqrt((n * n - 1) / 12).
    let spread = |levels: f32| ((levels * levels - 1.0) / 12.0).sqrt();
    // Scales of blocks differ, but so little that no row of an embedding dominates.
    let wobble = |random: &mut Random| 0.8 + 0.4 * (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
    match dtype {
        DType::F32 => block.copy_from_slice(&(deviation * random.normal()).to_le_bytes()),
        DType::F16 => block.copy_from_slice(&f16::from_f32(deviation * random.normal()).to_le_bytes()),
        DType::BF16 => block.copy_from_slice(&half::bf16::from_f32(deviation * random.normal()).to_le_bytes()),
        DType::IQ4_NL => {
            random.fill(block);
            // The grid's mean is not 0, so the scale's sign is random here too.
            put_f16(&mut block[..2], deviation / magnitude(&IQ4) * wobble(random) * sign(random));
        }
        DType::IQ4_XS => fill_iq4_xs_block(deviation / magnitude(&IQ4) * wobble(random), random, block),
        DType::MXFP4 => {
            random.fill(block);
            // Randomly selects one of the two adjacent powers of two, with the expected mean square.
            let wanted = deviation / magnitude(&E2M1_TWICE);
            let lower = wanted.log2().floor();
            let share = ((wanted / lower.exp2()).powi(2) - 1.0) / 3.0;
            let upper = (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32 <= share;
            block[0] = (128.0 + lower) as u8 + u8::from(upper);
        }
        DType::Q4_K => fill_k_block(deviation / spread(16.0), 7.5, random, block),
        DType::Q5_K => fill_k_block(deviation / spread(32.0), 15.5, random, block),
        DType::Q6_K => {
            random.fill(block);
            let magnitudes = 64..128u64;
            let mean = 95.5;
            for scale in &mut block[192..208] {
                let magnitude = (magnitudes.start + random.below(64)) as i8;
                *scale = if random.next_u64() & 1 == 0 { magnitude } else { -magnitude } as u8;
            }
            put_f16(&mut block[208..], deviation / spread(64.0) / mean * wobble(random));
        }
        DType::NVFP4 => {
            random.fill(block);
            // The levels of the quants (0, 1, 2, 3, 4, 6, 8, 12, both signs) have this deviation, and scales are
            // doubled.
            let d = 2.0 * deviation / (274.0f32 / 8.0).sqrt();
            for scale in &mut block[..4] {
                *scale = ue4m3(d * wobble(random), random);
            }
        }
        _ => match dtype.scales() {
            Scales::F16(offsets) if dtype.block() == GROUP => {
                let quant_bits = 8 * (dtype.block_bytes() - 2 * offsets.len()) / GROUP;
                let levels = 2f32.powi(quant_bits as i32);
                random.fill(block);
                // The grids are asymmetric by one step, so the scale's sign is random to keep the mean at 0.
                let d = deviation / spread(levels) * wobble(random) * sign(random);
                match offsets {
                    [_, _] => put_centred(d, (1.0 - levels) / 2.0, block),
                    _ => put_f16(&mut block[..2], d),
                }
            }
            _ => fill_measured(dtype, deviation * wobble(random), random, block),
        },
    }
}

/// Fills a block of a type with uneven levels: measures the deviation of the random quants, then sets the scale.
fn fill_measured(dtype: DType, deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    match dtype {
        // With a minimum equal to the scale and dmin = 1.5 d, every sub-block is centred on 0.
        DType::Q2_K => block[..16].iter_mut().for_each(|byte| *byte = 0x88 | *byte & 7 | (*byte & 7) << 4),
        // Scales of 16 to 31 with both signs, so that the negative of each exists.
        DType::Q3_K => {
            let scales = std::array::from_fn(|_| sign(random) as i8 * (16 + random.below(16)) as i8);
            put_q3_k_scales(block, scales);
        }
        // Three of four codes are values.
        DType::TQ2_0 => block[..64].iter_mut().for_each(|byte| {
            *byte = (0..4).fold(0, |byte, _| byte << 2 | random.below(3) as u8);
        }),
        _ => {}
    }
    put_scale(dtype, 1.0, block);
    let mut values = [0.0; 256];
    dtype.decode(block, &mut values);
    let measured = (values.iter().map(|x| x * x).sum::<f32>() / 256.0).sqrt();
    // The levels of some types are not symmetric, so the sign is random to keep the mean at 0.
    put_scale(dtype, deviation / measured * sign(random), block);
}

/// Sets the scale of a block, and of its minima.
fn put_scale(dtype: DType, d: f32, block: &mut [u8]) {
    match dtype.scales() {
        Scales::F16(&[at]) => put_f16(&mut block[at..at + 2], d),
        // Q2_K: with a minimum equal to the scale, every sub-block is centred on 0.
        Scales::F16(&[at, minima_at]) => {
            put_f16(&mut block[at..at + 2], d);
            put_f16(&mut block[minima_at..minima_at + 2], 1.5 * f16::from_f32(d).to_f32());
        }
        // Four bits of the scale are in the high bits of each of four words.
        Scales::SplitF16(start) => {
            let bits = f16::from_f32(d).to_bits();
            for (j, word) in block[start..].chunks_exact_mut(2).enumerate() {
                word[1] = word[1] & 15 | ((bits >> (4 * j) & 15) << 4) as u8;
            }
        }
        other => unreachable!("{dtype} has {other:?}"),
    }
}

/// Writes the sixteen 6-bit scales of a block of Q3_K, -32 to 31.
fn put_q3_k_scales(block: &mut [u8], scales: [i8; 16]) {
    let codes = scales.map(|scale| (scale + 32) as u8);
    for l in 0..8 {
        block[96 + l] = codes[l] & 15 | (codes[8 + l] & 15) << 4;
    }
    for l in 0..4 {
        block[104 + l] = (0..4).fold(0, |byte, pair| byte | codes[4 * pair + l] >> 4 << (2 * pair));
    }
}

/// Negates every second group of a row of blocks in place.
pub(crate) fn negate_odd_groups(dtype: DType, row: &mut [u8]) {
    let block_bytes = dtype.block_bytes();
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => {
            for group in row.chunks_mut(GROUP * block_bytes).skip(1).step_by(2) {
                // The sign is the highest bit of the last byte.
                group.iter_mut().skip(block_bytes - 1).step_by(block_bytes).for_each(|byte| *byte ^= 0x80);
            }
        }
        // The highest bit of a nibble is a sign.
        DType::MXFP4 => {
            let odd = row.chunks_exact_mut(block_bytes).skip(1).step_by(2);
            odd.flat_map(|block| &mut block[1..]).for_each(|byte| *byte ^= 0x88);
        }
        // Scales of odd sub-blocks are high nibbles and their two high bits, and stand for 32 less; none is 0.
        DType::IQ4_XS => {
            for block in row.chunks_exact_mut(block_bytes) {
                let high = u16::from_le_bytes([block[2], block[3]]);
                let mut negated = high;
                for sub in (1..8).step_by(2) {
                    let scale = (high >> (2 * sub) & 3) << 4 | u16::from(block[4 + sub / 2] >> 4);
                    let negative = 64 - scale;
                    negated = negated & !(3 << (2 * sub)) | (negative >> 4) << (2 * sub);
                    block[4 + sub / 2] = block[4 + sub / 2] & 15 | (negative << 4) as u8;
                }
                block[2..4].copy_from_slice(&negated.to_le_bytes());
            }
        }
        // Sub-blocks are centred, so that the complement of a quant is its negative. Odd ones are in the high nibbles,
        // and in the odd bits of Q5_K's fifths.
        DType::Q4_K => {
            row.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[16..144]).for_each(|byte| *byte ^= 0xf0);
        }
        DType::Q5_K => {
            for block in row.chunks_exact_mut(block_bytes) {
                block[16..48].iter_mut().for_each(|byte| *byte ^= 0b1010_1010);
                block[48..176].iter_mut().for_each(|byte| *byte ^= 0xf0);
            }
        }
        // Two signed scales to a group.
        DType::Q6_K => {
            for block in row.chunks_exact_mut(block_bytes) {
                let odd = block[192..208].chunks_exact_mut(2).skip(1).step_by(2).flatten();
                odd.for_each(|scale| *scale = scale.wrapping_neg());
            }
        }
        // Sub-blocks are centred as in Q4_K. Of the four groups that share bytes, odd ones have the bits 2, 3 and 6, 7.
        DType::Q2_K => {
            let quants = row.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[16..80]);
            quants.for_each(|byte| *byte ^= 0b1100_1100);
        }
        DType::Q3_K => {
            for block in row.chunks_exact_mut(block_bytes) {
                let mut scales = dtype.integers(block).expect("Q3_K has integers").scales;
                scales.iter_mut().enumerate().filter(|(at, _)| at / 2 % 2 == 1).for_each(|(_, scale)| *scale = -*scale);
                put_q3_k_scales(block, scales);
            }
        }
        // The two bits of a value and of its negative add up to two.
        DType::TQ2_0 => {
            for byte in row.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[..64]) {
                *byte = *byte & 0b0011_0011 | (0b1000_1000 - (*byte & 0b1100_1100));
            }
        }
        // Signs have bits of their own: the four bytes of a group, or 28 bits of them.
        DType::IQ2_XXS => negate_signs(row, block_bytes, 6, 8, 0x0fff_ffff),
        DType::IQ3_XXS => negate_signs(row, block_bytes, 66, 4, 0x0fff_ffff),
        DType::IQ2_S => negate_signs(row, block_bytes, 34, 4, !0),
        DType::IQ3_S => negate_signs(row, block_bytes, 74, 4, !0),
        DType::IQ2_XS => {
            let words = row.chunks_exact_mut(block_bytes).flat_map(|block| block[2..66].chunks_exact_mut(2));
            words.enumerate().filter(|(at, _)| at / 4 % 2 == 1).for_each(|(_, word)| word[1] ^= 0xfe);
        }
        // The signs of the second 32 of 64 elements.
        DType::NVFP4 => {
            row.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[20..]).for_each(|byte| *byte ^= 0x88);
        }
        _ => match dtype.scales() {
            // A block is a group. An element is a sum of products with the f16 scales, so all of these change their
            // sign.
            Scales::F16(offsets) if dtype.block() == GROUP => {
                for block in row.chunks_exact_mut(block_bytes).skip(1).step_by(2) {
                    offsets.iter().for_each(|offset| block[offset + 1] ^= 0x80);
                }
            }
            _ => encode_negated(dtype, row),
        },
    }
}

/// Negates the odd groups of a type whose encoder is exact for values that it has decoded.
fn encode_negated(dtype: DType, row: &mut [u8]) {
    for block in row.chunks_exact_mut(dtype.block_bytes()) {
        let mut values = vec![0.0; dtype.block()];
        dtype.decode(block, &mut values);
        values.chunks_mut(GROUP).skip(1).step_by(2).flatten().for_each(|x| *x = -*x);
        let mut negated = Vec::with_capacity(block.len());
        // IQ1 has neither an encoder nor a negative of each vector: see `ModelSpec::dtype`.
        dtype.encode(&values, &mut negated).expect("tied embeddings have a type with an encoder");
        block.copy_from_slice(&negated);
    }
}

/// Flips the bits `mask` of the `u32` of each odd group of 32 elements; the first stands at `start` in a block, the
/// next one `stride` bytes on.
fn negate_signs(row: &mut [u8], block_bytes: usize, start: usize, stride: usize, mask: u32) {
    for block in row.chunks_exact_mut(block_bytes) {
        for group in (1..8).step_by(2) {
            let signs = block[start + stride * group..].first_chunk_mut().expect("each group has four bytes of signs");
            *signs = (u32::from_le_bytes(*signs) ^ mask).to_le_bytes();
        }
    }
}

/// Encodes `x` as an 8-bit float with four exponent bits, with stochastic rounding: rounding to nearest would be biased
/// for small `x`.
fn ue4m3(x: f32, random: &mut Random) -> u8 {
    // Below 2^-6 the step size is constant.
    let exponent = x.log2().floor().clamp(-6.0, 8.0);
    let steps = x / (exponent - 3.0).exp2() + (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
    // Eight steps are one exponent, also if rounding up reaches the next one.
    (8 * (exponent as i32 + 6) + steps as i32).clamp(0, 0x7e) as u8
}

/// Fills a block of Q4_K or Q5_K. `step` is the distance of adjacent values, `middle` the quant of the value 0.
fn fill_k_block(step: f32, middle: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    // With a minimum equal to the scale and dmin = middle * d, every sub-block is centred on 0.
    let scales: [u8; 8] = std::array::from_fn(|_| 32 + random.below(32) as u8);
    let mean = 47.5;
    put_centred(step / mean, middle, block);
    for j in 0..4 {
        let (low, high) = (scales[j], scales[j + 4]);
        block[4 + j] = low | (high >> 4) << 6;
        block[8 + j] = low | (high >> 4) << 6;
        block[12 + j] = (high & 15) | high << 4;
    }
}

/// Fills a block of IQ4_XS. `step` is the value of the grid's unit, as root mean square over sub-blocks.
fn fill_iq4_xs_block(step: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    // Magnitudes of 16 to 31 and either sign, stored as 32 more.
    let scales: [u8; 8] = std::array::from_fn(|_| {
        let magnitude = 16 + random.below(16) as u8;
        if random.next_u64() & 1 == 0 { 32 + magnitude } else { 32 - magnitude }
    });
    let mean_square = (16..32).map(|scale| (scale * scale) as f32).sum::<f32>() / 16.0;
    put_f16(&mut block[..2], step / mean_square.sqrt());
    let high = scales.iter().rev().fold(0u16, |high, scale| high << 2 | u16::from(scale >> 4));
    block[2..4].copy_from_slice(&high.to_le_bytes());
    for (byte, [even, odd]) in block[4..8].iter_mut().zip(scales.as_chunks::<2>().0) {
        *byte = even & 15 | odd << 4;
    }
}

/// Returns the root mean square of a grid.
fn magnitude(grid: &[i8; 16]) -> f32 {
    (grid.iter().map(|&value| f32::from(value) * f32::from(value)).sum::<f32>() / 16.0).sqrt()
}

/// Writes `d` and `times * d` to the start of a block. The latter is computed from the stored `d`, because a small f16
/// is subnormal and has few bits.
fn put_centred(d: f32, times: f32, block: &mut [u8]) {
    put_f16(&mut block[..2], d);
    put_f16(&mut block[2..4], times * f16::from_f32(d).to_f32());
}

fn sign(random: &mut Random) -> f32 {
    if random.next_u64() & 1 == 0 { 1.0 } else { -1.0 }
}

fn put_f16(bytes: &mut [u8], value: f32) {
    bytes.copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_blocks_have_requested_moments() {
        for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
            for deviation in [0.02, 1.0] {
                let elements = 1 << 17;
                let mut bytes = Vec::new();
                let mut random = Random::from_name(5, dtype.name());
                write_matrix(dtype, elements, deviation, &mut random, &mut bytes).expect("a vector takes all bytes");
                let mut values = vec![0.0f32; elements as usize];
                dtype.decode(&bytes, &mut values);
                let sum = |f: fn(f64) -> f64| values.iter().map(|&x| f(x.into())).sum::<f64>() / elements as f64;
                let (mean, got) = (sum(|x| x), sum(|x| x * x).sqrt());
                let wanted = f64::from(deviation);
                assert!((got / wanted - 1.0).abs() < 0.08, "{dtype}: deviation {got}, not {wanted}");
                assert!(mean.abs() < 0.02 * wanted, "{dtype}: mean {mean} next to a deviation of {wanted}");
            }
        }
    }
}
