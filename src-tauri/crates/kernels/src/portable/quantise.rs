//! Activations into columns. Every operation is exact or rounded once, and none is fused, so that all variants write
//! the same bytes. Layout: [`crate::format`].

use crate::format::Format;

/// Adding it rounds a number of magnitude below 2^22 to an integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Writes one column.
#[inline(always)]
pub(crate) fn convert(format: Format, x: &[f32], column: &mut [u8]) {
    assert!(x.len().is_multiple_of(format.block()), "{} elements are whole blocks of {format:?}", x.len());
    let [scales, sums, values] = format.split_mut(x.len(), column);
    match format {
        Format::F32 => {
            let used = 4 * x.len();
            for (out, x) in values.as_chunks_mut::<4>().0.iter_mut().zip(x) {
                *out = x.to_le_bytes();
            }
            values[used..].fill(0);
        }
        Format::Q8x32 => blocks::<32, 32, 4>(x, scales, sums, values, i32::to_le_bytes),
        Format::Q8x256 => blocks::<256, 16, 2>(x, scales, sums, values, |sum| (sum as i16).to_le_bytes()),
    }
}

/// Blocks of `BLOCK` elements under one scale, with a sum of `WIDTH` bytes for each `GROUP`.
#[inline(always)]
fn blocks<const BLOCK: usize, const GROUP: usize, const WIDTH: usize>(
    x: &[f32],
    scales: &mut [u8],
    sums: &mut [u8],
    values: &mut [u8],
    sum_bytes: impl Fn(i32) -> [u8; WIDTH],
) {
    let blocks = x.as_chunks::<BLOCK>().0;
    scales[4 * blocks.len()..].fill(0);
    sums[BLOCK / GROUP * WIDTH * blocks.len()..].fill(0);
    values[x.len()..].fill(0);

    let scales = scales.as_chunks_mut::<4>().0;
    let sums = sums.as_chunks_mut::<WIDTH>().0.chunks_exact_mut(BLOCK / GROUP);
    let values = values.as_chunks_mut::<BLOCK>().0;
    for (((x, scale), sums), values) in blocks.iter().zip(scales).zip(sums).zip(values) {
        // The bits of magnitudes are ordered like the magnitudes, with infinity and then NaN on top.
        let largest = x.iter().map(|x| x.to_bits() & 0x7fff_ffff).fold(0, u32::max);
        let largest = f32::from_bits(largest);
        *scale = (largest / 127.0).to_le_bytes();
        let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
        for ((x, values), sum) in x.as_chunks::<GROUP>().0.iter().zip(values.as_chunks_mut::<GROUP>().0).zip(sums) {
            let mut total = 0;
            for (&x, value) in x.iter().zip(values) {
                let rounded = (x * inverse + ROUND).to_bits() as i32;
                let rounded = rounded.wrapping_sub(ROUND.to_bits() as i32).clamp(-127, 127);
                total += rounded;
                *value = rounded as i8 as u8;
            }
            *sum = sum_bytes(total);
        }
    }
}
