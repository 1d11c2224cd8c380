//! Random tensors, made as blocks: quantised types get random valid blocks directly, which is faster than rounding floats
//! by two orders of magnitude and needs no encoder.
//!
//! **Scale.** A matrix of deviation `1 / sqrt(inputs)` keeps a normalised vector's size. Queries and keys are a little larger,
//! so that attention picks instead of averaging. What embedding and output are like: see [`crate::embedding`].

use std::io::{self, Write};

use cairn_gguf::DType;
use cairn_gguf::dtype::codebook::{E2M1_TWICE, IQ4};
use half::f16;

use crate::random::Random;

/// Blocks made and written at a time.
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

/// A vector of `elements` F32 around `mean`, within a few tenths of it, as norms' weights are.
pub fn vector(elements: u64, mean: f32, random: &mut Random) -> Vec<f32> {
    (0..elements).map(|_| mean * (1.0 + 0.1 * random.normal())).collect()
}

/// One block of random quants whose values have mean 0 and about the given deviation.
fn fill_block(dtype: DType, deviation: f32, random: &mut Random, block: &mut [u8]) {
    // The deviation of n equally likely neighbouring integers is sqrt((n * n - 1) / 12).
    let spread = |levels: f32| ((levels * levels - 1.0) / 12.0).sqrt();
    // Scales differ from block to block, by so little that no row of an embedding outweighs all others.
    let wobble = |random: &mut Random| 0.8 + 0.4 * (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
    match dtype {
        DType::F32 => block.copy_from_slice(&(deviation * random.normal()).to_le_bytes()),
        DType::F16 => block.copy_from_slice(&f16::from_f32(deviation * random.normal()).to_le_bytes()),
        DType::BF16 => block.copy_from_slice(&half::bf16::from_f32(deviation * random.normal()).to_le_bytes()),
        DType::Q8_0 | DType::Q4_0 | DType::Q5_0 => {
            let levels = match dtype {
                DType::Q8_0 => 256.0,
                DType::Q4_0 => 16.0,
                _ => 32.0,
            };
            random.fill(block);
            // The grids reach one step further down than up, so a scale's sign is random to keep the mean at 0.
            let d = deviation / spread(levels) * wobble(random) * sign(random);
            put_f16(&mut block[..2], d);
        }
        DType::Q4_1 | DType::Q5_1 => {
            let levels = if dtype == DType::Q4_1 { 16.0 } else { 32.0 };
            random.fill(block);
            let d = deviation / spread(levels) * wobble(random) * sign(random);
            put_centred(d, (1.0 - levels) / 2.0, block);
        }
        DType::IQ4_NL => {
            random.fill(block);
            // The grid's middle is not 0, so a scale's sign is random here too.
            put_f16(&mut block[..2], deviation / magnitude(&IQ4) * wobble(random) * sign(random));
        }
        DType::IQ4_XS => fill_iq4_xs_block(deviation / magnitude(&IQ4) * wobble(random), random, block),
        DType::MXFP4 => {
            random.fill(block);
            // Of the powers of two about the wanted scale, each as often as gives the wanted mean square.
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
            // The levels of the quants (0, 1, 2, 3, 4, 6, 8, 12, both signs) have this deviation, and scales are doubled.
            let d = 2.0 * deviation / (274.0f32 / 8.0).sqrt();
            for scale in &mut block[..4] {
                *scale = ue4m3(d * wobble(random), random);
            }
        }
        DType::Q2_K | DType::Q3_K | DType::TQ1_0 | DType::TQ2_0 | DType::IQ1_S | DType::IQ1_M => {
            fill_measured(dtype, deviation * wobble(random), random, block);
        }
        DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S | DType::IQ3_XXS | DType::IQ3_S => {
            fill_measured(dtype, deviation * wobble(random), random, block);
        }
        DType::Q8_1 | DType::Q8_K | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::F64 => {
            unreachable!("refused before the first block")
        }
    }
}

/// Types whose levels are uneven: the deviation of the random quants is measured, then the block's scale chosen by it.
fn fill_measured(dtype: DType, deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    match dtype {
        // With a minimum equal to the scale and dmin = 1.5 d, every sub-block is centred on 0.
        DType::Q2_K => block[..16].iter_mut().for_each(|byte| *byte = 0x88 | *byte & 7 | (*byte & 7) << 4),
        // Scales of 16 to 31 and both signs, so that there is a negative of each.
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
    // The levels of some types are not quite even around 0, so the sign is random to keep the mean there.
    put_scale(dtype, deviation / measured * sign(random), block);
}

/// Sets the scale of a block, and of its minima.
fn put_scale(dtype: DType, d: f32, block: &mut [u8]) {
    match dtype {
        DType::Q2_K => {
            put_f16(&mut block[80..82], d);
            put_f16(&mut block[82..84], 1.5 * f16::from_f32(d).to_f32());
        }
        // A quarter of the bits on top of each of four words.
        DType::IQ1_M => {
            let bits = f16::from_f32(d).to_bits();
            for (j, word) in block[48..].chunks_exact_mut(2).enumerate() {
                word[1] = word[1] & 15 | ((bits >> (4 * j) & 15) << 4) as u8;
            }
        }
        DType::Q3_K => put_f16(&mut block[108..], d),
        DType::TQ1_0 => put_f16(&mut block[52..], d),
        DType::TQ2_0 => put_f16(&mut block[64..], d),
        _ => put_f16(&mut block[..2], d),
    }
}

/// Writes the sixteen 6-bit scales of a block of Q3_K, -32 to 31.
pub(crate) fn put_q3_k_scales(block: &mut [u8], scales: [i8; 16]) {
    let codes = scales.map(|scale| (scale + 32) as u8);
    for l in 0..8 {
        block[96 + l] = codes[l] & 15 | (codes[8 + l] & 15) << 4;
    }
    for l in 0..4 {
        block[104 + l] = (0..4).fold(0, |byte, pair| byte | codes[4 * pair + l] >> 4 << (2 * pair));
    }
}

/// A byte that stands for `x` as an 8-bit float of four bits of exponent, of the two around it one at random: the nearest
/// would be too far off in the mean where `x` is small.
fn ue4m3(x: f32, random: &mut Random) -> u8 {
    // Below 2^-6 the steps stay as they are.
    let exponent = x.log2().floor().clamp(-6.0, 8.0);
    let steps = x / (exponent - 3.0).exp2() + (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32;
    // Eight steps are one exponent, also where rounding up gives one more.
    (8 * (exponent as i32 + 6) + steps as i32).clamp(0, 0x7e) as u8
}

/// Q4_K and Q5_K: `step` is the wanted distance of neighbouring values, `middle` the quant that shall mean 0.
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

/// IQ4_XS: `step` is what the grid's unit shall stand for, as the root of its mean square over sub-blocks.
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

/// The root of a grid's mean square.
fn magnitude(grid: &[i8; 16]) -> f32 {
    (grid.iter().map(|&value| f32::from(value) * f32::from(value)).sum::<f32>() / 16.0).sqrt()
}

/// Starts a block with `d` and with `times` as much. The latter is a multiple of what was stored, since an f16 that small is
/// a subnormal with few bits.
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
    fn blocks_have_the_moments_that_were_asked_for() {
        for dtype in DType::all().filter(|dtype| dtype.is_weight()) {
            for deviation in [0.02, 1.0] {
                let elements = 1 << 17;
                let mut bytes = Vec::new();
                let mut random = Random::named(5, dtype.name());
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
