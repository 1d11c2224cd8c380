//! Recorded bits of a tiny model's logits by variant: cached rows are valid only for the arithmetic that computed them.

use cairn_gguf::DType;
use cairn_kernels::Variant;
use cairn_tensor::Backend;

use crate::common::{all_variants, cpu, tiny};
use crate::model::{Model, logits};
use crate::varied::varied;

/// Expected results: kernel variant, numerics revision as in `Caps`, and five hashes of logits. The first two are of
/// the plain and the varied model with f16 pages, the others of the plain model with each page type in [`OTHERS`].
const BITS: &[(&str, u32, [u64; 5])] = &[
    (
        "avx512-vnni",
        1001,
        [5176291818490734597, 17752098465513648429, 12811129165267315338, 4769782380293317174, 2215971248315841760],
    ),
    (
        "avx2-fma-f16c",
        1001,
        [5176291818490734597, 17752098465513648429, 12811129165267315338, 4769782380293317174, 2215971248315841760],
    ),
    (
        "dotprod",
        1001,
        [5176291818490734597, 17752098465513648429, 12811129165267315338, 4769782380293317174, 2215971248315841760],
    ),
    (
        "neon",
        1001,
        [5176291818490734597, 17752098465513648429, 12811129165267315338, 4769782380293317174, 2215971248315841760],
    ),
    (
        "scalar",
        1001,
        [11645330565623324970, 13581273719611167089, 3386487198507424932, 17600151999812950161, 13433999517227102440],
    ),
];

/// Types of pages besides f16.
const OTHERS: [DType; 3] = [DType::BF16, DType::Q8_0, DType::Q4_0];

/// FNV-1a over the bits of all logits of 300 tokens, for a float, a 32-block and a 256-block type.
fn hash(model: Model, backend: impl Fn() -> cairn_tensor::Cpu) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for dtype in [DType::F16, DType::Q4_0, DType::Q4_K] {
        for logit in logits(&mut backend(), model, dtype, 300) {
            for byte in logit.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

fn hashes(variant: &'static Variant) -> [u64; 5] {
    let [plain, varied] = [tiny as Model, varied].map(|model| hash(model, || cpu(variant, 2)));
    let [a, b, c] = OTHERS.map(|kv_type| hash(tiny, || cpu(variant, 2).with_kv_type(kv_type)));
    [plain, varied, a, b, c]
}

#[test]
fn result_bits_change_only_with_numerics_rev() {
    let found: Vec<_> = all_variants()
        .into_iter()
        .map(|variant| (variant.name, cpu(variant, 1).caps().numerics_rev, hashes(variant)))
        .collect();
    let expected: Vec<_> =
        BITS.iter().filter(|(name, ..)| found.iter().any(|(own, ..)| own == name)).copied().collect();
    assert_eq!(found, expected, "bump NUMERICS_REV of the kernels or of this crate, and record the new bits");
}
