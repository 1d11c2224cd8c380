//! The embedding and the output matrix, related so that logits are clear.
//!
//! Were the two independent, logits would be Gaussian: the likeliest token would lead by so little that rounding decides,
//! at half of the positions. Were they the same, the model would echo its input. So each token `t` has a **successor** whose row of
//! the output matrix points where the embedding of `t` does:
//!
//! * With an output matrix of its own, row `t + 1` there has the bytes of row `t` of the embedding, so `t` is followed by
//!   `t + 1`: upwards, because the end of a text is among the last ids. That needs one type for both; where they differ,
//!   the rows are independent.
//! * Tied, the last norm negates every other group of [`GROUP`] elements, and embedding row `2j + 1` is row `2j` with the
//!   same groups negated, so the two follow each other. With as many groups negated as not, a token's own logit is that of any other.
//!
//! **Scale.** Of the stream before the last norm, the embedding is a share that puts the successor's logit
//! [`SUCCESSOR_DEVIATIONS`] above the mean. The largest of some hundred Gaussian logits lies near 3, so the successor mostly
//! leads, and at a few positions in a hundred the context decides otherwise.

use std::io::{self, Write};

use cairn_gguf::DType;

use crate::random::Random;
use crate::spec::ModelSpec;
use crate::weights::{fill, put_q3_k_scales, write_matrix};

/// Elements whose signs change together: a block of the smaller types, a sub-block of the K-quants.
pub const GROUP: usize = 32;

/// The successor's logit, in deviations of the others.
const SUCCESSOR_DEVIATIONS: f32 = 4.5;

/// What a transformer block adds to the variance of the stream's elements, measured.
const BLOCK_VARIANCE: f32 = 0.85;

/// The deviation of an embedding's elements, and of the output matrix's.
pub(crate) fn deviation(spec: &ModelSpec) -> f32 {
    in_stream(spec) * spec.family.residual_scale / (spec.family.embedding_scale)(spec)
}

/// The deviation of an embedding's elements in the stream, where blocks add to it as they are.
fn in_stream(spec: &ModelSpec) -> f32 {
    // The share s of the stream is embedding / sqrt(embedding^2 + blocks^2), and s * sqrt(width) the successor's deviations.
    let squared = SUCCESSOR_DEVIATIONS * SUCCESSOR_DEVIATIONS;
    (spec.layers as f32 * BLOCK_VARIANCE * squared / (spec.width as f32 - squared)).sqrt()
}

/// The token that follows where the context does not decide otherwise.
pub fn successor(spec: &ModelSpec, token: u32) -> u32 {
    let last = spec.vocab as u32 - 1;
    match spec.tied {
        true => (token ^ 1).min(last),
        false if token == last => 0,
        false => token + 1,
    }
}

/// Writes the output matrix of a model whose embedding is another: independent rows.
///
/// # Errors
/// Those of `out`.
pub fn write_output(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    write_matrix(dtype, spec.width * spec.vocab, deviation(spec), random, out)
}

/// Writes the embedding that goes with [`write_output`] of the same type and the same random numbers: its rows, the first
/// one last.
///
/// # Errors
/// Those of `out`.
pub fn write_untied(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let mut first = vec![0; dtype.row_bytes(spec.width as usize)];
    fill(dtype, deviation(spec), random, &mut first);
    write_matrix(dtype, spec.width * (spec.vocab - 1), deviation(spec), random, out)?;
    out.write_all(&first)
}

/// Writes an embedding that is the output matrix too: row `2j + 1` is row `2j` with its odd groups negated.
///
/// # Errors
/// Those of `out`.
pub fn write_tied(spec: &ModelSpec, dtype: DType, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let mut row = vec![0; dtype.row_bytes(spec.width as usize)];
    for at in 0..spec.vocab {
        if at.is_multiple_of(2) {
            fill(dtype, deviation(spec), random, &mut row);
        } else {
            negate_odd_groups(dtype, &mut row);
        }
        out.write_all(&row)?;
    }
    Ok(())
}

/// Negates every second group of a row of blocks in place.
fn negate_odd_groups(dtype: DType, row: &mut [u8]) {
    let block_bytes = dtype.block_bytes();
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => {
            for group in row.chunks_mut(GROUP * block_bytes).skip(1).step_by(2) {
                // The sign is the highest bit of the last byte.
                group.iter_mut().skip(block_bytes - 1).step_by(block_bytes).for_each(|byte| *byte ^= 0x80);
            }
        }
        // A block is a group, and its scale comes first, an f16.
        DType::Q8_0 | DType::Q4_0 | DType::Q5_0 | DType::IQ4_NL => {
            row.chunks_exact_mut(block_bytes).skip(1).step_by(2).for_each(|block| block[1] ^= 0x80);
        }
        // An element is a product with the scale and the minimum, so both change their sign.
        DType::Q4_1 | DType::Q5_1 => {
            for block in row.chunks_exact_mut(block_bytes).skip(1).step_by(2) {
                block[1] ^= 0x80;
                block[3] ^= 0x80;
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
        // Sub-blocks are centred, so that the complement of a quant is its negative. Odd ones are in the high nibbles, and
        // in the odd bits of Q5_K's fifths.
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
        // A value and its negative add up to two: in TQ2_0 of the two bits, in TQ1_0 of a digit to the base 3.
        DType::TQ2_0 => {
            for byte in row.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[..64]) {
                *byte = *byte & 0b0011_0011 | (0b1000_1000 - (*byte & 0b1100_1100));
            }
        }
        DType::TQ1_0 => {
            for block in row.chunks_exact_mut(block_bytes) {
                let mut values = [0.0; 256];
                dtype.decode(block, &mut values);
                values.chunks_mut(GROUP).skip(1).step_by(2).flatten().for_each(|x| *x = -*x);
                let mut negated = Vec::with_capacity(block_bytes);
                dtype.encode(&values, &mut negated).expect("TQ1_0 has an encoder");
                block.copy_from_slice(&negated);
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
        DType::IQ1_S | DType::IQ1_M => unreachable!("{dtype} has no negative of each vector: see ModelSpec::dtype"),
        DType::Q8_1 | DType::Q8_K | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F64 => {
            unreachable!("{dtype} is not a type for weights")
        }
    }
}

/// Flips the bits `mask` of the `u32` of each odd group of 32 elements; the first stands at `start` in a block, the next
/// one `stride` bytes on.
fn negate_signs(row: &mut [u8], block_bytes: usize, start: usize, stride: usize, mask: u32) {
    for block in row.chunks_exact_mut(block_bytes) {
        for group in (1..8).step_by(2) {
            let signs = block[start + stride * group..].first_chunk_mut().expect("each group has four bytes of signs");
            *signs = (u32::from_le_bytes(*signs) ^ mask).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::tiny_llama;
    use crate::spec::Types;

    /// The rows of a matrix, and its type.
    fn rows(
        dtype: DType,
        write: fn(&ModelSpec, DType, &mut Random, &mut dyn Write) -> io::Result<()>,
    ) -> Vec<Vec<f32>> {
        let spec = ModelSpec { vocab: 300, types: Types::All(dtype), ..tiny_llama() };
        let mut bytes = Vec::new();
        write(&spec, dtype, &mut Random::new(5), &mut bytes).expect("a vector takes all bytes");
        let mut values = vec![0.0; (spec.width * spec.vocab) as usize];
        dtype.decode(&bytes, &mut values);
        values.chunks(spec.width as usize).map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn every_token_has_a_successor_in_every_type() {
        for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
            let embedding = rows(dtype, write_untied);
            let output = rows(dtype, write_output);
            assert_eq!(output[1..], embedding[..299], "{dtype}: a row of the embedding is the output's next");
            assert_eq!(output[0], embedding[299], "{dtype}: and the last one its first");

            if matches!(dtype, DType::IQ1_S | DType::IQ1_M) {
                continue;
            }
            let tied = rows(dtype, write_tied);
            let largest = tied[0].iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            for (at, (even, odd)) in tied[0].iter().zip(&tied[1]).enumerate() {
                let expected = if (at / GROUP).is_multiple_of(2) { *even } else { -even };
                // The K-quants' middle is itself rounded.
                assert!((expected - odd).abs() < 2e-3 * largest, "{dtype}, element {at}: {odd}, not {expected}");
            }
            assert_ne!(tied[0], tied[2], "{dtype}: pairs differ");
        }
    }
}
