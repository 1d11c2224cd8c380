//! Processor and its instruction sets as plain data.

/// Processor and the cores that this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Vendor's name of the processor; empty if the system does not report it.
    pub brand: String,
    /// Online physical cores of the whole machine. At least 1.
    pub physical_cores: usize,
    /// Online hardware threads of the whole machine. At least `physical_cores`.
    pub logical: usize,
    /// Ids of hardware threads for pinned compute threads, ascending: one per physical core that the affinity mask allows, and no
    /// more than the container's CPU quota. Never empty.
    pub usable_cores: Vec<usize>,
    /// Available instruction sets.
    pub features: Features,
}

/// Instruction sets beyond the architecture's baseline. A set is available only if the operating system saves its registers too,
/// which the standard library checks. Sets of other architectures are false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// x86: SSE 4.1, 128-bit integers.
    pub sse41: bool,
    /// x86: AVX2, 256-bit integers.
    pub avx2: bool,
    /// x86: fused multiply-add on 256 bits.
    pub fma: bool,
    /// x86: conversion between half and single precision.
    pub f16c: bool,
    /// x86: AVX-512 foundation.
    pub avx512f: bool,
    /// x86: AVX-512 on bytes and words.
    pub avx512bw: bool,
    /// x86: AVX-512 instructions on 128 and 256 bits.
    pub avx512vl: bool,
    /// x86: 8-bit dot products on AVX-512 registers.
    pub avx512vnni: bool,
    /// x86: bfloat16 dot products on AVX-512 registers.
    pub avx512bf16: bool,
    /// x86: 8-bit dot products on 256 bits, encoded without AVX-512.
    pub avxvnni: bool,
    /// ARM: 128-bit SIMD.
    pub neon: bool,
    /// ARM: 8-bit dot products (`sdot`).
    pub dotprod: bool,
    /// ARM: 8-bit matrix products (`smmla`).
    pub i8mm: bool,
}

impl Features {
    /// Returns the name and availability of each set, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, bool); 13] {
        let mut copy = *self;
        copy.fields().map(|(name, available)| (name, *available))
    }

    /// Returns all sets of all architectures except one, for tests of what needs that set.
    #[must_use]
    pub fn all_but(name: &str) -> Self {
        let mut all = Self::default();
        for (field, available) in all.fields() {
            *available = field != name;
        }
        all
    }

    fn fields(&mut self) -> [(&'static str, &mut bool); 13] {
        [
            ("sse41", &mut self.sse41),
            ("avx2", &mut self.avx2),
            ("fma", &mut self.fma),
            ("f16c", &mut self.f16c),
            ("avx512f", &mut self.avx512f),
            ("avx512bw", &mut self.avx512bw),
            ("avx512vl", &mut self.avx512vl),
            ("avx512vnni", &mut self.avx512vnni),
            ("avx512bf16", &mut self.avx512bf16),
            ("avxvnni", &mut self.avxvnni),
            ("neon", &mut self.neon),
            ("dotprod", &mut self.dotprod),
            ("i8mm", &mut self.i8mm),
        ]
    }

    /// Detects the sets of this processor.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self {
            sse41: is_x86_feature_detected!("sse4.1"),
            avx2: is_x86_feature_detected!("avx2"),
            fma: is_x86_feature_detected!("fma"),
            f16c: is_x86_feature_detected!("f16c"),
            avx512f: is_x86_feature_detected!("avx512f"),
            avx512bw: is_x86_feature_detected!("avx512bw"),
            avx512vl: is_x86_feature_detected!("avx512vl"),
            avx512vnni: is_x86_feature_detected!("avx512vnni"),
            avx512bf16: is_x86_feature_detected!("avx512bf16"),
            avxvnni: is_x86_feature_detected!("avxvnni"),
            ..Self::default()
        };
        #[cfg(target_arch = "aarch64")]
        return Self {
            neon: std::arch::is_aarch64_feature_detected!("neon"),
            dotprod: std::arch::is_aarch64_feature_detected!("dotprod"),
            i8mm: std::arch::is_aarch64_feature_detected!("i8mm"),
            ..Self::default()
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name() {
        let some = Features { fma: true, i8mm: true, ..Features::default() };
        let named = some.named().into_iter().filter(|(_, available)| *available);
        let named: Vec<_> = named.map(|(name, _)| name).collect();
        assert_eq!(named, ["fma", "i8mm"], "available sets");
        for (name, _) in some.named() {
            let missing = Features::all_but(name).named().into_iter().filter(|(_, available)| !available);
            assert_eq!(missing.collect::<Vec<_>>(), [(name, false)], "only that set is missing");
        }
    }
}
