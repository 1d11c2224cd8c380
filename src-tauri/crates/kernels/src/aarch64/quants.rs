//! Blocks of quantised weights as signed bytes in registers. The layouts are drawn in `cairn_gguf::dtype`.

use std::arch::aarch64::*;

use super::memory::{load_i8x16, load_pair, load_u8x16};
use crate::block::{BlockType, Layout, at, raised};

/// The elements `32 * sub..32 * (sub + 1)` of a block.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn weights<T: BlockType>(block: &[u8], sub: usize) -> [int8x16_t; 2] {
    match T::LAYOUT {
        Layout::Bytes => load_pair(at(block, 2)),
        Layout::Nibbles => signed::<T>(nibbles::<T>(block, sub)),
        Layout::FiveBits => {
            let [low, high] = nibbles::<T>(block, sub);
            let &[a, b, c, d] = at(block, T::NIBBLES - 4);
            signed::<T>([vorrq_u8(low, sixteens(a, b)), vorrq_u8(high, sixteens(c, d))])
        }
        Layout::Indices => {
            let grid = load_i8x16(const { &raised(T::GRID, 0) });
            let [low, high] = nibbles::<T>(block, sub);
            [vqtbl1q_s8(grid, low), vqtbl1q_s8(grid, high)]
        }
        Layout::PairedNibbles => signed::<T>([half_nibbles::<T>(block, sub, 0), half_nibbles::<T>(block, sub, 1)]),
        Layout::PairedFiveBits => {
            signed::<T>([with_fifth_bits::<T>(block, sub, 0), with_fifth_bits::<T>(block, sub, 1)])
        }
        _ => signed::<T>([six_bits(block, sub, 0), six_bits(block, sub, 1)]),
    }
}

/// Unsigned quants less their offset.
#[inline]
#[target_feature(enable = "neon")]
fn signed<T: BlockType>([low, high]: [uint8x16_t; 2]) -> [int8x16_t; 2] {
    let offset = vdupq_n_s8(T::OFFSET as i8);
    [vsubq_s8(vreinterpretq_s8_u8(low), offset), vsubq_s8(vreinterpretq_s8_u8(high), offset)]
}

/// Of sixteen bytes, low nibbles, then high ones.
#[inline]
#[target_feature(enable = "neon")]
fn nibbles<T: BlockType>(block: &[u8], sub: usize) -> [uint8x16_t; 2] {
    let bytes = load_u8x16(at(block, T::NIBBLES + 16 * sub));
    [vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes)]
}

/// Every byte shifted to lower bits.
#[inline]
#[target_feature(enable = "neon")]
fn shifted(bytes: uint8x16_t, bits: usize) -> uint8x16_t {
    vshlq_u8(bytes, vdupq_n_s8(-(bits as i8)))
}

/// Byte `i` of the lower half is 16 where bit `i` of `low` is set; so are those of the upper half and `high`.
#[inline]
#[target_feature(enable = "neon")]
fn sixteens(low: u8, high: u8) -> uint8x16_t {
    let bytes = vcombine_u8(vdup_n_u8(low), vdup_n_u8(high));
    let bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
    vandq_u8(vtstq_u8(bytes, bit), vdupq_n_u8(16))
}

/// Low (even `sub`) or high nibbles of one half of the 32 bytes that two sub-blocks share.
#[inline]
#[target_feature(enable = "neon")]
fn half_nibbles<T: BlockType>(block: &[u8], sub: usize, half: usize) -> uint8x16_t {
    let bytes = load_u8x16(at(block, T::NIBBLES + 32 * (sub / 2) + 16 * half));
    vandq_u8(shifted(bytes, 4 * (sub % 2)), vdupq_n_u8(15))
}

/// One half of a sub-block of Q5_K.
#[inline]
#[target_feature(enable = "neon")]
fn with_fifth_bits<T: BlockType>(block: &[u8], sub: usize, half: usize) -> uint8x16_t {
    let set = vtstq_u8(load_u8x16(at(block, 16 + 16 * half)), vdupq_n_u8(1 << sub));
    vorrq_u8(half_nibbles::<T>(block, sub, half), vandq_u8(set, vdupq_n_u8(16)))
}

/// One half of 32 elements of Q6_K: four bits in one place, two in another.
#[inline]
#[target_feature(enable = "neon")]
fn six_bits(block: &[u8], sub: usize, half: usize) -> uint8x16_t {
    let (upper, group) = (sub / 4, sub % 4);
    let low = load_u8x16(at(block, 64 * upper + 32 * (group % 2) + 16 * half));
    let low = vandq_u8(shifted(low, 4 * (group / 2)), vdupq_n_u8(15));
    let high = load_u8x16(at(block, 128 + 32 * upper + 16 * half));
    let high = vandq_u8(shifted(high, 2 * group), vdupq_n_u8(3));
    vorrq_u8(low, vshlq_n_u8::<4>(high))
}
