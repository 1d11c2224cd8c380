//! A row's logits have the same bits for all batches around it, cuts of its prompt and numbers of threads.

use cairn_gguf::DType;
use cairn_kernels::Variant;
use cairn_tensor::{Backend, Batch, Limits};

use crate::common::{VOCABULARY, all_variants, cpu, push_rows, read, table, tiny};
use crate::hybrid::{Snapshots, hybrid, linear, state_space};
use crate::latent::latent;
use crate::model::Model;
use crate::varied::{chunked, varied};

/// Tokens of the prompt: three spans of attention, the last one incomplete, and an incomplete page.
const PROMPT: usize = 700;
/// Most tokens of the other sequences.
const BESIDE: usize = 768;

/// A case: the model, the type of its weights, and the type of its pages.
#[derive(Clone, Copy)]
struct Case {
    model: Model,
    dtype: DType,
    kv_type: DType,
}

/// Logits of every token of the prompt, computed in batches of `cut`. With `beside`, each batch also holds one row of a
/// sequence before it and up to five rows of a sequence behind it.
fn logits(case: Case, variant: &'static Variant, cut: usize, threads: usize, beside: bool) -> Vec<u32> {
    let mut backend = cpu(variant, threads).with_kv_type(case.kv_type);
    let (plan, buffer) = (case.model)(&mut backend, case.dtype, Limits { rows: PROMPT + 6, logit_rows: PROMPT + 1 });
    let tables: Vec<_> = (0..3).map(|seq| table(seq, 3, BESIDE)).collect();
    backend.grow_pages(tables.iter().map(Vec::len).sum()).expect("a few pages can be had");
    let (mut all, mut snapshots) = (Vec::new(), Snapshots::default());
    for (nth, start) in (0..PROMPT).step_by(cut).enumerate() {
        let mut batch = Batch { tables: tables.clone(), ..Batch::default() };
        let end = (start + cut).min(PROMPT);
        if beside {
            push_rows(&mut batch, 0, nth..nth + 1, true);
        }
        push_rows(&mut batch, 1, start..end, true);
        if beside {
            push_rows(&mut batch, 2, (5 * nth).min(BESIDE)..(5 * nth + 5).min(BESIDE), false);
        }
        snapshots.link(&mut batch, |_| true);
        backend.run(plan, &batch).expect("the batch is sound");
        let before = usize::from(beside);
        let found = read(&backend, plan, buffer, before + end - start, VOCABULARY);
        all.extend(found[before * VOCABULARY..].iter().map(|logit| logit.to_bits()));
    }
    all
}

fn check(model: Model, dtype: DType) {
    check_pages(Case { model, dtype, kv_type: DType::F16 });
}

fn check_pages(case: Case) {
    let Case { dtype, kv_type, .. } = case;
    for variant in all_variants() {
        let whole = logits(case, variant, PROMPT, 1, false);
        let distinct = whole.iter().collect::<std::collections::HashSet<_>>().len();
        assert!(distinct > whole.len() / 2, "constant logits would prove nothing: {distinct} distinct");
        assert!(whole.iter().all(|logit| f32::from_bits(*logit).is_finite()), "logits are finite");
        // Alone, cuts of 1 and 64 give fewer tasks than threads, so attention splits spans over threads.
        for (cut, threads, beside) in [(1, 2, false), (7, 3, true), (64, 3, false), (512, 2, true), (PROMPT, 3, true)] {
            // These types use the same code paths of this crate as the others, and take most of the time.
            let slow = variant.name == "scalar" && !matches!(cut, 64 | 512);
            if slow || cut == 1 && !matches!(dtype, DType::F32 | DType::Q8_0 | DType::Q4_K) {
                continue;
            }
            let found = logits(case, variant, cut, threads, beside);
            let wrong = found.iter().zip(&whole).position(|(a, b)| a != b);
            let name = variant.name;
            assert_eq!(
                wrong.map(|at| at / VOCABULARY),
                None,
                "first token with other bits: {name}, {dtype}, pages of {kv_type}, cut {cut}, {threads} threads, beside: {beside}"
            );
        }
    }
}

#[test]
fn f32_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::F32);
}

#[test]
fn f16_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::F16);
}

#[test]
fn bf16_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::BF16);
}

#[test]
fn q8_0_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q8_0);
}

#[test]
fn q4_0_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q4_0);
}

#[test]
fn q5_0_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q5_0);
}

#[test]
fn q4_k_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q4_K);
}

#[test]
fn q5_k_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q5_K);
}

#[test]
fn q6_k_weights_give_identical_logits_in_any_batch() {
    check(tiny, DType::Q6_K);
}

#[test]
fn chunks_and_weighed_inputs_give_identical_logits_in_any_batch() {
    check(chunked, DType::F32);
    check(chunked, DType::Q8_0);
}

#[test]
fn f32_experts_give_identical_logits_in_any_batch() {
    check(varied, DType::F32);
}

#[test]
fn q8_0_experts_give_identical_logits_in_any_batch() {
    check(varied, DType::Q8_0);
}

#[test]
fn q4_k_experts_give_identical_logits_in_any_batch() {
    check(varied, DType::Q4_K);
}

#[test]
fn convolutions_give_identical_logits_in_any_batch() {
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K] {
        check(hybrid, dtype);
    }
}

#[test]
fn latent_attention_gives_identical_logits_in_any_batch() {
    for dtype in [DType::F32, DType::Q4_K] {
        check(latent, dtype);
    }
    check_pages(Case { model: latent, dtype: DType::Q8_0, kv_type: DType::Q8_0 });
}

#[test]
fn linear_attention_gives_identical_logits_in_any_batch() {
    for dtype in [DType::F32, DType::Q8_0] {
        check(linear, dtype);
    }
}

#[test]
fn state_spaces_give_identical_logits_in_any_batch() {
    for dtype in [DType::F32, DType::Q8_0] {
        check(state_space, dtype);
    }
}

#[test]
fn bf16_pages_give_identical_logits_in_any_batch() {
    check_pages(Case { model: tiny, dtype: DType::F32, kv_type: DType::BF16 });
    check_pages(Case { model: varied, dtype: DType::Q8_0, kv_type: DType::BF16 });
}

#[test]
fn q8_0_pages_give_identical_logits_in_any_batch() {
    check_pages(Case { model: tiny, dtype: DType::F32, kv_type: DType::Q8_0 });
    check_pages(Case { model: varied, dtype: DType::Q8_0, kv_type: DType::Q8_0 });
}

#[test]
fn q4_0_pages_give_identical_logits_in_any_batch() {
    check_pages(Case { model: tiny, dtype: DType::F32, kv_type: DType::Q4_0 });
    check_pages(Case { model: varied, dtype: DType::Q8_0, kv_type: DType::Q4_0 });
}
