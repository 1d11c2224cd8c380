//! The bits of a tiny model's logits, by variant: stored keys and values are only good for the arithmetic that made them.

use cairn_gguf::DType;
use cairn_tensor::{Backend, Batch, BufferId, Limits, PlanId};

use crate::common::{VOCABULARY, all_variants, cpu, push_rows, read, table, tiny};
use crate::varied::varied;

/// Variant, its revision as in `Caps`, and the hashes of the plain model's logits and of the varied one's.
const BITS: &[(&str, u32, [u64; 2])] = &[
    ("avx512-vnni", 1001, [5176291818490734597, 17752098465513648429]),
    ("avx2-fma-f16c", 1001, [5176291818490734597, 17752098465513648429]),
    ("dotprod", 1001, [5176291818490734597, 17752098465513648429]),
    ("neon", 1001, [5176291818490734597, 17752098465513648429]),
    ("scalar", 1001, [11645330565623324970, 13581273719611167089]),
];

/// Writes a model into a backend.
type Model = fn(&mut dyn Backend, DType, Limits) -> (PlanId, BufferId);

/// FNV-1a over the bits of all logits of 300 tokens, for a float, a 32-block and a 256-block type.
fn hash(model: Model, backend: impl Fn() -> cairn_tensor::Cpu) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for dtype in [DType::F16, DType::Q4_0, DType::Q4_K] {
        let mut backend = backend();
        let (plan, buffer) = model(&mut backend, dtype, Limits { rows: 300, logit_rows: 300 });
        let mut batch = Batch { tables: vec![table(0, 1, 300)], ..Batch::default() };
        backend.grow_pages(batch.tables[0].len()).expect("five pages can be had");
        push_rows(&mut batch, 0, 0..300, true);
        backend.run(plan, &batch).expect("the batch is sound");
        for logit in read(&backend, plan, buffer, 300, VOCABULARY) {
            for byte in logit.to_bits().to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

#[test]
fn bits_change_only_with_the_revision() {
    let found: Vec<_> = all_variants()
        .into_iter()
        .map(|variant| {
            (
                variant.name,
                cpu(variant, 1).caps().numerics_rev,
                [tiny as Model, varied].map(|model| hash(model, || cpu(variant, 2))),
            )
        })
        .collect();
    let expected: Vec<_> =
        BITS.iter().filter(|(name, ..)| found.iter().any(|(own, ..)| own == name)).copied().collect();
    assert_eq!(found, expected, "bump NUMERICS_REV, of the kernels or of this crate, and write down the new bits");
}
