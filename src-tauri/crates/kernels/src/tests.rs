//! Every usable variant against itself (any cut of the work gives the same bits), against the scalar one and against
//! oracles in `f64`.

mod activation;
mod attention;
mod delta;
mod dispatch;
mod elementwise;
mod matmul;
mod scan;

use cairn_gguf::DType;
use cairn_gguf::dtype::Scales;
use cairn_hardware::Machine;

use crate::{Format, Variant};

/// Every type of weights.
fn types() -> impl Iterator<Item = DType> {
    DType::all().filter(|dtype| dtype.is_weight())
}

/// The variants that this machine can run.
fn usable() -> Vec<&'static Variant> {
    crate::usable(&Machine::probe().cpu.features)
}

fn scalar() -> &'static Variant {
    crate::by_name("scalar").expect("the scalar variant is in every table")
}

/// A small generator (Steele, Lea and Flood, "Fast splittable pseudorandom number generators"), so that each failure
/// is reproducible.
struct Noise(u64);

impl Noise {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Evenly in -1..1.
    fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.unit()).collect()
    }

    /// Activations with a few large ones, as models have them.
    fn activations(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.unit() * if self.bits().is_multiple_of(61) { 20.0 } else { 1.0 }).collect()
    }

    /// `rows` rows of `k` weights: any bits, under scales of both signs around 0.01.
    fn weights(&mut self, dtype: DType, rows: usize, k: usize) -> Vec<u8> {
        if Format::of(dtype) == Format::F32 {
            let mut bytes = Vec::new();
            dtype.encode(&self.floats(rows * k), &mut bytes).expect("float types have encoders");
            return bytes;
        }
        let mut bytes: Vec<u8> = (0..rows * dtype.row_bytes(k)).map(|_| self.bits() as u8).collect();
        for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
            set_scales(dtype, block, || half::f16::from_f32(self.unit() * 0.01).to_bits());
        }
        bytes
    }
}

/// Sets the scales of a block to binary16 numbers, or MXFP4's to the power of two below one; those of NVFP4 are numbers
/// whatever their bits.
fn set_scales(dtype: DType, block: &mut [u8], mut scale: impl FnMut() -> u16) {
    match dtype.scales() {
        Scales::None | Scales::UE4M3 => {}
        // The exponent's bias is that of binary32, and the scale is half of the power of two.
        Scales::E8M0 => block[0] = (half::f16::from_bits(scale()).to_f32().abs().to_bits() >> 23) as u8 + 1,
        Scales::F16(offsets) => {
            for &offset in offsets {
                block[offset..offset + 2].copy_from_slice(&scale().to_le_bytes());
            }
        }
        Scales::SplitF16(start) => {
            let scale = scale();
            for (j, byte) in block[start..].iter_mut().skip(1).step_by(2).enumerate() {
                *byte = *byte & 15 | ((scale >> (4 * j) & 15) << 4) as u8;
            }
        }
    }
}

/// Returns the bits of all elements. Comparing floats instead would ignore the sign of zero, and NaN equals nothing.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Fails unless every element is within `bound` of the expected one, which may be as precise as `f64`.
fn assert_near(what: &str, got: &[f32], expected: &[f64], bound: impl Fn(usize) -> f64) {
    assert_eq!(got.len(), expected.len(), "{what}: as many results as expected");
    for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(got) - expected).abs();
        assert!(error <= bound(i), "{what}[{i}]: {got} is {error:e} from {expected}, allowed {:e}", bound(i));
    }
}
