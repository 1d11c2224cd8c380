//! TQ1_0: 256 values of -1, 0 or 1, five to a byte, with one scale.
//!
//! ```text
//! byte  0                        32                48        52  54
//!       +------------------------+-----------------+---------+---+     d: f16
//!       | 160 values, 5 a byte   | 80, 5 a byte    | 16, 4   | d |     x = d * (digit - 1)
//!       +------------------------+-----------------+---------+---+
//! ```
//!
//! Of `w` bytes, byte `l` holds the elements `l`, `w + l`, `2 w + l` and so on as digits to the base 3 behind the point, the
//! first one the highest, of a fraction of 256: digit `n` is the integer part of 3 times the fraction that is left when
//! the byte is multiplied with `3^n`.

use half::f16;

use super::integers::{BLOCK, Integers};
use super::scales::{largest, scale};

const BYTES: usize = 54;
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// Multiplies digit after digit out of the fractions.
pub(super) fn read(block: &[u8; BYTES]) -> Integers {
    let mut out = Integers::new(scale([block[52], block[53]]));
    let planes = planes(&block[..32], 5).chain(planes(&block[32..48], 5)).chain(planes(&block[48..52], 4));
    for (out, digit) in out.quants.iter_mut().zip(planes) {
        *out = digit as i8 - 1;
    }
    out
}

/// The first digits of all bytes, then the second ones, and so on.
fn planes(bytes: &[u8], digits: usize) -> impl Iterator<Item = u8> {
    let powers = POWERS.into_iter().take(digits);
    powers.flat_map(move |power| bytes.iter().map(move |byte| ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as u8))
}

/// Maps the largest magnitude to 1 and rounds half away from zero.
pub(super) fn encode(x: &[f32], out: &mut Vec<u8>) {
    for x in x.as_chunks::<BLOCK>().0 {
        let (d, digits) = ternary(x);
        let (first, rest) = digits.split_at(5 * 32);
        let (second, third) = rest.split_at(5 * 16);
        for (digits, width) in [(first, 32), (second, 16), (third, 4)] {
            out.extend((0..width).map(|l| {
                let digits = digits.iter().skip(l).step_by(width).chain([&0]).take(5);
                let number = digits.fold(0u16, |number, &digit| 3 * number + u16::from(digit));
                // Rounded up, so that the digits come out of the fraction again.
                (number * 256).div_ceil(243) as u8
            }));
        }
        out.extend(f16::from_f32(d).to_le_bytes());
    }
}

/// The scale, which is the largest magnitude, and for each element 0, 1 or 2.
pub(super) fn ternary(x: &[f32; BLOCK]) -> (f32, [u8; BLOCK]) {
    let d = largest(x).abs();
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    (d, x.map(|x| ((x * inverse).round().clamp(-1.0, 1.0) + 1.0) as u8))
}
