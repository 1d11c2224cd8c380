//! Loads and stores through pointers. None needs alignment.
#![expect(unsafe_code, reason = "vector loads and stores take pointers")]

use std::arch::aarch64::*;

/// Loads 16 signed bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_i8x16(x: &[u8; 16]) -> int8x16_t {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { vld1q_s8(x.as_ptr().cast()) }
}

/// Loads 32 signed bytes into two registers.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_pair(x: &[u8; 32]) -> [int8x16_t; 2] {
    let [low, high] = x.as_chunks().0 else { unreachable!("32 are two times 16") };
    [load_i8x16(low), load_i8x16(high)]
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_u8x16(x: &[u8; 16]) -> uint8x16_t {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { vld1q_u8(x.as_ptr()) }
}

/// Loads four `u16`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_u16x4(x: &[u16; 4]) -> uint16x4_t {
    // SAFETY: `x` refers to 8 readable bytes, and this load needs no alignment.
    unsafe { vld1_u16(x.as_ptr()) }
}

/// Loads four `u16` from the little-endian bytes of a file.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_u16x4_bytes(x: &[u8; 8]) -> uint16x4_t {
    // SAFETY: `x` refers to 8 readable bytes, and this load needs no alignment.
    vreinterpret_u16_u8(unsafe { vld1_u8(x.as_ptr()) })
}

/// Loads eight `i16`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_i16x8(x: &[i16; 8]) -> int16x8_t {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { vld1q_s16(x.as_ptr()) }
}

/// Loads four `f32`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn load_f32x4(x: &[f32; 4]) -> float32x4_t {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { vld1q_f32(x.as_ptr()) }
}

/// Stores 16 signed bytes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn store_i8x16(x: &mut [u8; 16], value: int8x16_t) {
    // SAFETY: `x` refers to 16 writable bytes, and this store needs no alignment.
    unsafe { vst1q_s8(x.as_mut_ptr().cast(), value) }
}

/// Stores four `u16`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn store_u16x4(value: uint16x4_t) -> [u16; 4] {
    let mut x = [0; 4];
    // SAFETY: `x` is 8 writable bytes, and this store needs no alignment.
    unsafe { vst1_u16(x.as_mut_ptr(), value) };
    x
}

/// Stores four `f32`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn store_f32x4(value: float32x4_t) -> [f32; 4] {
    let mut x = [0.0; 4];
    // SAFETY: `x` is 16 writable bytes, and this store needs no alignment.
    unsafe { vst1q_f32(x.as_mut_ptr(), value) };
    x
}
