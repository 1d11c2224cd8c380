//! The sub-blocks of a block side by side, so that an encoder searches the scales of all of them at once.
//!
//! A sum over a sub-block must be taken element after element, for it to be the same sum on every machine and in every
//! implementation. What need not wait for each other are the sub-blocks: a [`Lanes`] holds one number of each, and its
//! operations, each the scalar one in every lane, are what a compiler makes vector instructions of.

use std::array::from_fn;
use std::ops::{Add, Div, Mul, Sub};

use super::integers::BLOCK;

/// One number for each of `N` sub-blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lanes<const N: usize>(pub(super) [f32; N]);

/// The elements of `N` sub-blocks of `LEN`: the first elements of all, then the second ones, and so on.
pub(super) type SubBlocks<const N: usize, const LEN: usize> = [Lanes<N>; LEN];

/// Parts a block into its sub-blocks.
#[expect(clippy::indexing_slicing, reason = "a lane and an element of it number an element of the block")]
pub(super) fn part<const N: usize, const LEN: usize>(block: &[f32; BLOCK]) -> SubBlocks<N, LEN> {
    const { assert!(N * LEN == BLOCK, "sub-blocks make up a block") };
    from_fn(|element| Lanes(from_fn(|lane| block[lane * LEN + element])))
}

/// Joins small whole numbers of the sub-blocks to those of the block.
#[expect(clippy::indexing_slicing, reason = "an element of the block has a lane and a position in it")]
pub(super) fn join<const N: usize, const LEN: usize>(parts: &SubBlocks<N, LEN>) -> [u8; BLOCK] {
    const { assert!(N * LEN == BLOCK, "sub-blocks make up a block") };
    from_fn(|at| parts[at % LEN].0[at / LEN] as u8)
}

/// The nearest whole number, the even one of two: next to 1.5 * 2^23 a float has no bits below one. Beyond 2^22 the
/// result is only near, which is enough for what is clamped afterwards; where ggml's wraps around there, this does not.
pub(super) fn nearest(x: f32) -> f32 {
    const WHOLE: f32 = 12_582_912.0;
    x + WHOLE - WHOLE
}

impl<const N: usize> Lanes<N> {
    /// The same number in every lane.
    #[inline(always)]
    pub(super) fn all(x: f32) -> Self {
        Lanes([x; N])
    }

    #[inline(always)]
    pub(super) fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Lanes(self.0.map(f))
    }

    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        self
    }

    /// Returns the lane-wise minimum; the lane of `self` if one of the two is NaN.
    #[inline(always)]
    pub(super) fn least(self, other: Self) -> Self {
        self.zip(other, |a, b| if b < a { b } else { a })
    }

    /// Returns the lane-wise maximum; the lane of `self` if one of the two is NaN.
    #[inline(always)]
    pub(super) fn greatest(self, other: Self) -> Self {
        self.zip(other, |a, b| if b > a { b } else { a })
    }

    /// Returns in each lane the value of the larger magnitude; the lane of `self` if both are equal.
    #[inline(always)]
    pub(super) fn largest(self, other: Self) -> Self {
        self.zip(other, |a, b| if b.abs() > a.abs() { b } else { a })
    }

    /// Rounds each lane to the nearest integer and clamps it to `low..=high`.
    #[inline(always)]
    pub(super) fn level(self, low: f32, high: f32) -> Self {
        self.map(|x| {
            let x = nearest(x);
            let x = if x > low { x } else { low };
            if x < high { x } else { high }
        })
    }

    /// Returns a mask of the lanes in which `self` is greater than `other`.
    #[inline(always)]
    pub(super) fn above(self, other: Self) -> Mask<N> {
        let mut mask = [0; N];
        for (mask, (a, b)) in mask.iter_mut().zip(self.0.iter().zip(other.0)) {
            *mask = if *a > b { u32::MAX } else { 0 };
        }
        Mask(mask)
    }

    /// Returns a mask of the lanes in which `self` equals `other`.
    #[inline(always)]
    pub(super) fn equal(self, other: Self) -> Mask<N> {
        let mut mask = [0; N];
        for (mask, (a, b)) in mask.iter_mut().zip(self.0.iter().zip(other.0)) {
            *mask = if *a == b { u32::MAX } else { 0 };
        }
        Mask(mask)
    }

    /// Selects the lane of `self` if the mask is set, else the lane of `other`.
    #[inline(always)]
    pub(super) fn or(self, mask: Mask<N>, other: Self) -> Self {
        let mut out = other;
        for ((out, a), mask) in out.0.iter_mut().zip(self.0).zip(mask.0) {
            *out = f32::from_bits((a.to_bits() & mask) | (out.to_bits() & !mask));
        }
        out
    }
}

/// Mask with one element per lane: all bits set, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask<const N: usize>([u32; N]);

impl<const N: usize> Mask<N> {
    /// Returns the lanes that are set in both masks.
    #[inline(always)]
    pub(super) fn and(mut self, other: Self) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a &= b;
        }
        self
    }

    /// Returns the lanes that are not set.
    #[inline(always)]
    pub(super) fn not(self) -> Self {
        Mask(self.0.map(|mask| !mask))
    }

    /// Whether any lane is set.
    #[inline(always)]
    pub(super) fn any(self) -> bool {
        self.0.iter().fold(0, |any, mask| any | mask) != 0
    }
}

macro_rules! operator {
    ($trait:ident, $name:ident, $sign:tt) => {
        impl<const N: usize> $trait for Lanes<N> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.zip(other, |a, b| a $sign b)
            }
        }
    };
}

operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);
