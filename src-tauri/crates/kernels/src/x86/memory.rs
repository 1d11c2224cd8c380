//! Loads and stores through pointers. None needs alignment.
#![expect(unsafe_code, reason = "vector loads and stores take pointers")]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, __m512, __m512i, _MM_HINT_T1, _mm_loadu_si128, _mm_prefetch, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_storeu_ps,
    _mm512_storeu_si512,
};

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load128(x: &[u8; 16]) -> __m128i {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { _mm_loadu_si128(x.as_ptr().cast()) }
}

/// Loads 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load256(x: &[u8; 32]) -> __m256i {
    // SAFETY: `x` refers to 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Loads 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load512(x: &[u8; 64]) -> __m512i {
    // SAFETY: `x` refers to 64 readable bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
}

/// Loads the first eight of sixteen `i32`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_i32x8(x: &[i32; 16]) -> __m256i {
    // SAFETY: `x` refers to 64 readable bytes, of which 32 are loaded, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Loads eight `f32`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_f32x8(x: &[f32; 8]) -> __m256 {
    // SAFETY: `x` refers to 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

/// Loads eight `u16`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_u16x8(x: &[u16; 8]) -> __m128i {
    // SAFETY: `x` refers to 16 readable bytes, and this load needs no alignment.
    unsafe { _mm_loadu_si128(x.as_ptr().cast()) }
}

/// Loads sixteen `u16`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_u16x16(x: &[u16; 16]) -> __m256i {
    // SAFETY: `x` refers to 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Loads four `u64`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_u64x4(x: &[u64; 4]) -> __m256i {
    // SAFETY: `x` refers to 32 readable bytes, and this load needs no alignment.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Loads sixteen `f32`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_f32x16(x: &[f32; 16]) -> __m512 {
    // SAFETY: `x` refers to 64 readable bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_ps(x.as_ptr()) }
}

/// Loads sixteen `i32`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_i32x16(x: &[i32; 16]) -> __m512i {
    // SAFETY: `x` refers to 64 readable bytes, and this load needs no alignment.
    unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
}

/// Stores 32 bytes, half of a cache line.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store256(x: &mut [u8; 32], value: __m256i) {
    // SAFETY: `x` refers to 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), value) }
}

/// Stores 64 bytes, one cache line.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store512(x: &mut [u8; 64], value: __m512i) {
    // SAFETY: `x` refers to 64 writable bytes, and this store needs no alignment.
    unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), value) }
}

/// Stores eight `f32`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_f32x8(value: __m256) -> [f32; 8] {
    let mut x = [0.0; 8];
    // SAFETY: `x` is 32 writable bytes, and this store needs no alignment.
    unsafe { _mm256_storeu_ps(x.as_mut_ptr(), value) };
    x
}

/// Stores sixteen `f32`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_f32x16(value: __m512) -> [f32; 16] {
    let mut x = [0.0; 16];
    // SAFETY: `x` is 64 writable bytes, and this store needs no alignment.
    unsafe { _mm512_storeu_ps(x.as_mut_ptr(), value) };
    x
}

/// Prefetches the cache lines of `len` bytes from `offset` on, which may be past the end of `bytes`.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8], offset: usize, len: usize) {
    for line in (0..len).step_by(64) {
        // SAFETY: a prefetch reads nothing that a program could see and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(offset + line).cast()) };
    }
}
