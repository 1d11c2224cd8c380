//! A small pseudo-random generator, which gives the same sequence on every machine and with every dependency.

/// SplitMix64: 64 bits of state, every seed is good. <https://prng.di.unimi.it/splitmix64.c>
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Creates the sequence of `seed` and `name`, independent of those of other names.
    pub fn from_name(seed: u64, name: &str) -> Random {
        // FNV-1a maps names to states, which the generator mixes further.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut random = Random::new(seed ^ hash);
        Random::new(random.next_u64())
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..bound`, slightly biased for a large `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number of mean 0 and standard deviation 1: the sum of four uniform numbers, so at most 3.5.
    pub fn normal(&mut self) -> f32 {
        let bits = self.next_u64();
        let sum: u64 = (0..4).map(|i| (bits >> (16 * i)) & 0xffff).sum();
        // Four uniform numbers on 0..65536 have the mean 131,070 and the deviation 65,536 / sqrt(3).
        (sum as f32 - 131_070.0) / 37_837.2
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_equals_published_outputs() {
        // The first outputs of the published C code for the seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317, "the first number");
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973, "the second number");
        assert_ne!(Random::from_name(1, "a").next_u64(), Random::from_name(1, "b").next_u64(), "names differ");
        assert_ne!(Random::from_name(1, "a").next_u64(), Random::from_name(2, "a").next_u64(), "seeds differ");
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = Random::new(7);
        let x: Vec<f64> = (0..100_000).map(|_| f64::from(random.normal())).collect();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let deviation = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!((deviation - 1.0).abs() < 0.01, "deviation {deviation}");
    }

    #[test]
    fn numbers_below_a_bound_cover_the_range() {
        let mut random = Random::new(3);
        let mut seen = [false; 10];
        for _ in 0..200 {
            seen[random.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10], "every number occurs");
    }
}
