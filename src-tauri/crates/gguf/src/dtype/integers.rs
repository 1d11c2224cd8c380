//! Blocks of 256 elements as integers, without loss: what products in integers start from.
//!
//! Most 256-element types differ only in how they pack the same things: small integers, a small integer scale for each 16
//! of them, and one float. Such a type's file has one function that unpacks a block to [`Integers`]; decoding follows,
//! and its bits are those of ggml whatever the order there, since up to the last product every step is exact: a scale
//! from the file has 11 significant bits, an integer scale at most 6, a quant at most 6.

/// One block: element `i` is `(d * scales[i / 16]) * quants[i]`, less a minimum where the type has minima.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Integers {
    /// The block's scale, times whatever power of two makes the rest integers.
    pub d: f32,
    /// One for each 16 elements.
    pub scales: [i8; 16],
    /// One for each element.
    pub quants: [i8; BLOCK],
    /// `None` for a type without.
    pub minima: Option<Minima>,
}

/// The minima of a block, which are subtracted from its elements: `d * values[i / 16]` off element `i`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minima {
    /// The scale that the minima share.
    pub d: f32,
    /// One for each 16 elements.
    pub values: [u8; 16],
}

/// Elements in a block.
pub(super) const BLOCK: usize = 256;

impl Integers {
    /// A block to be filled, with all sub-blocks scaled alike and without minima.
    pub(super) fn new(d: f32) -> Integers {
        Integers { d, scales: [1; 16], quants: [0; BLOCK], minima: None }
    }

    fn write(&self, out: &mut [f32; BLOCK]) {
        let minima = self.minima.unwrap_or(Minima { d: 0.0, values: [0; 16] });
        let subs = self.quants.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0);
        for ((quants, out), (&scale, minimum)) in subs.zip(self.scales.iter().zip(minima.values)) {
            let step = self.d * f32::from(scale);
            let minimum = minima.d * f32::from(minimum);
            for (&q, out) in quants.iter().zip(out) {
                // Without minima this takes off +0, which changes nothing, not even the sign of a zero.
                *out = step * f32::from(q) - minimum;
            }
        }
    }
}

/// Decodes blocks of a type that `read` unpacks.
pub(super) fn decode<const BYTES: usize>(blocks: &[u8], out: &mut [f32], read: fn(&[u8; BYTES]) -> Integers) {
    for (block, out) in blocks.as_chunks::<BYTES>().0.iter().zip(out.as_chunks_mut().0) {
        read(block).write(out);
    }
}

/// The first block of `bytes`, if there is one.
pub(super) fn first<const BYTES: usize>(bytes: &[u8], read: fn(&[u8; BYTES]) -> Integers) -> Option<Integers> {
    bytes.first_chunk().map(read)
}
