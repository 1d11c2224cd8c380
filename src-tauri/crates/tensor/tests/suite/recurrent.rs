//! Snapshots of recurrent states: continuing from one gives the bits of one run, and invalid ones are refused.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, DeltaRule, KeySharing, Limits, Op, PAGE_TOKENS, Plan, Recurrent, RecurrentId, Reference, Rows,
    SnapshotId, SnapshotLayout, SnapshotTable, WeightId,
};

use crate::common::{Random, VOCABULARY, all_variants, cpu, matrix, push_rows, read, table};
use crate::hybrid::{hybrid, linear, state_space};
use crate::model::Model;

/// Tokens of the sequence.
const TOKENS: usize = 150;
const LIMITS: Limits = Limits { rows: TOKENS, logit_rows: TOKENS };

fn backends() -> Vec<Box<dyn Backend>> {
    let variants = all_variants().into_iter();
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Reference::new())];
    backends.extend(variants.map(|variant| Box::new(cpu(variant, 2)) as Box<dyn Backend>));
    backends
}

/// Copies all states of a snapshot to another one, as a cache does.
fn copy(backend: &mut dyn Backend, layout: &SnapshotLayout, from: SnapshotId, to: SnapshotId) {
    for (state, section) in layout.sections.iter().enumerate() {
        let (state, mut bytes) = (RecurrentId(state as u32), vec![0; section.len()]);
        backend.read_snapshot(from, state, &mut bytes);
        backend.write_snapshot(to, state, &bytes);
    }
}

#[test]
fn sequence_continues_from_any_snapshot() {
    // The convolutions have three and four rows.
    check_snapshots(hybrid, &[2 * 256, 3 * 256]);
    check_snapshots(linear, &[3 * 288, 4 * 24 * 48, 3 * 288, 4 * 24 * 48]);
    check_snapshots(state_space, &[3 * 288, 4 * 24 * 48, 3 * 240, 4 * 24 * 48]);
}

/// Checks a model with states of this many elements.
fn check_snapshots(model: Model, states: &[usize]) {
    let states: Vec<Recurrent> = states.iter().map(|&elements| Recurrent { elements }).collect();
    let layout = SnapshotLayout::new(&states);
    for mut backend in backends() {
        let (plan, logits) = model(backend.as_mut(), DType::F32, LIMITS);
        backend.grow_pages(TOKENS.div_ceil(PAGE_TOKENS)).expect("a few pages can be had");
        let run = |backend: &mut dyn Backend, slots: std::ops::Range<usize>, snapshots: SnapshotTable| {
            let mut batch = Batch { tables: vec![table(0, 1, TOKENS)], snapshots: vec![snapshots], ..Batch::default() };
            push_rows(&mut batch, 0, slots.clone(), true);
            backend.run(plan, &batch).expect("the batch is sound");
            read(backend, plan, logits, slots.len(), VOCABULARY)
        };
        let at = [(1, 0), (2, 1), (3, 2), (70, 3), (150, 4)].map(|(tokens, id)| (tokens, SnapshotId(id)));
        let whole = run(backend.as_mut(), 0..TOKENS, SnapshotTable { from: None, to: at.to_vec() });
        for &(tokens, snapshot) in &at[..4] {
            copy(backend.as_mut(), &layout, snapshot, SnapshotId(8));
            let table = SnapshotTable { from: Some(SnapshotId(8)), to: vec![(TOKENS as u32, SnapshotId(9))] };
            let rest = run(backend.as_mut(), tokens as usize..TOKENS, table);
            let bits = |logits: &[f32]| logits.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
            let variant = backend.caps().variant;
            assert!(bits(&rest) == bits(&whole[tokens as usize * VOCABULARY..]), "{variant}: after {tokens} tokens");
            // Both runs end with the same states.
            for (state, section) in layout.sections.iter().enumerate() {
                let [mut a, mut b] = [0, 1].map(|_| vec![0; section.len()]);
                backend.read_snapshot(at[4].1, RecurrentId(state as u32), &mut a);
                backend.read_snapshot(SnapshotId(9), RecurrentId(state as u32), &mut b);
                assert!(a == b && a.iter().any(|&byte| byte != 0), "{variant}: state {state} after {tokens} tokens");
            }
        }
    }
}

#[test]
fn invalid_snapshots_are_refused() {
    let to = |ends: &[(u32, u32)]| ends.iter().map(|&(tokens, id)| (tokens, SnapshotId(id))).collect::<Vec<_>>();
    for (slots, from, ends, expected) in [
        (0..10, Some(0), to(&[(10, 1)]), "sequence 0 continues from Some(SnapshotId(0)) at slot 0"),
        (3..10, None, to(&[(10, 1)]), "sequence 0 continues from None at slot 3"),
        (0..10, None, to(&[]), "sequence 0 has slots 0..10, its snapshots are after []"),
        (0..10, None, to(&[(9, 1)]), "its snapshots are after [(9, "),
        (0..10, None, to(&[(5, 1), (5, 2), (10, 3)]), "its snapshots are after [(5, "),
        (3..10, Some(0), to(&[(3, 1), (10, 3)]), "its snapshots are after [(3, "),
        (3..10, Some(1), to(&[(10, 1)]), "snapshot 0 of sequence 0 has another use"),
        (0..10, None, to(&[(5, 1), (10, 1)]), "snapshot 0 of sequence 0 has another use"),
        (0..10, None, to(&[(10, 99)]), "snapshot 99 is beyond the pool's 12"),
        (3..10, Some(99), to(&[(10, 1)]), "snapshot 99 is beyond the pool's 12"),
    ] {
        for mut backend in backends() {
            let (plan, _) = hybrid(backend.as_mut(), DType::F32, LIMITS);
            backend.grow_pages(3).expect("a few pages can be had");
            let from = from.map(SnapshotId);
            let snapshots = vec![SnapshotTable { from, to: ends.clone() }];
            let mut batch = Batch { tables: vec![table(0, 1, TOKENS)], snapshots, ..Batch::default() };
            push_rows(&mut batch, 0, slots.clone(), false);
            let error = backend.run(plan, &batch).expect_err("the snapshots are invalid").to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
            batch.snapshots.clear();
            let error = backend.run(plan, &batch).expect_err("there are none").to_string();
            assert!(error.contains("sequence 0 has no snapshots"), "{error}");
            batch.rows.remove(4);
            let error = backend.run(plan, &batch).expect_err("a row is missing").to_string();
            assert!(error.contains("the rows from 0 on skip slots"), "{error}");
        }
    }
}

/// Checks that a plan with one convolution is refused with this text. Weights 0: 32 x 3, 1: 16 x 1, 2: 32 x 17.
fn check(weight: u32, width: usize, elements: usize, change: impl Fn(&mut Plan), expected: &str) {
    for mut backend in backends() {
        for (rows, cols) in [(32, 3), (16, 1), (32, 17)] {
            backend.upload(matrix(&mut Random(1), DType::F32, rows, cols, 1.0)).expect("the weight is sound");
        }
        let mut plan = Plan::default();
        let [x, out] = [width; 2].map(|width| plan.buffer(Rows::Batch, width));
        let state = plan.recurrent(elements);
        plan.push(Op::Conv { state, x, weight: WeightId(weight), bias: None, out });
        change(&mut plan);
        let error = backend.prepare(plan, LIMITS).expect_err("the plan is not sound").to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
}

#[test]
fn invalid_convolutions_are_refused() {
    let keep = |_: &mut Plan| {};
    check(0, 16, 64, keep, "buffer 0 is Buffer { rows: Batch, width: 16 }, not");
    check(0, 32, 65, keep, "is 32 x 3, its state has 65 elements");
    check(1, 16, 16, keep, "is 16 x 1, a convolution has 2 to 16 rows");
    check(2, 32, 512, keep, "is 32 x 17, a convolution has 2 to 16 rows");
    let again = |plan: &mut Plan| plan.ops.push(plan.ops[0].clone());
    check(0, 32, 64, again, "recurrent state 0 has 2 ops, not one");
    let unused = |plan: &mut Plan| plan.recurrent.push(Recurrent { elements: 8 });
    check(0, 32, 64, unused, "recurrent state 1 has 0 ops, not one");
    let large = |plan: &mut Plan| plan.recurrent.push(Recurrent { elements: usize::MAX / 8 });
    check(0, 32, 64, large, "recurrent state 1 has 2305843009213693951 elements");
    let missing = |plan: &mut Plan| plan.recurrent.clear();
    check(0, 32, 64, missing, "there is no recurrent state 0");
    let in_place = |plan: &mut Plan| {
        if let Op::Conv { x, out, .. } = &mut plan.ops[0] {
            *out = *x;
        }
    };
    check(0, 32, 64, in_place, "buffer 0 is both read and written");
    let biased = |plan: &mut Plan| {
        if let Op::Conv { bias, .. } = &mut plan.ops[0] {
            *bias = Some(WeightId(1));
        }
    };
    check(0, 32, 64, biased, "is 16 x 1, not a vector of 32");
    let to_logits = |plan: &mut Plan| plan.buffers[1].rows = Rows::Logits;
    check(0, 32, 64, to_logits, "buffer 1 is");
}

/// Checks that a plan with one op of linear attention is refused with this text.
fn check_rule(change: impl Fn(&mut DeltaRule), expected: &str) {
    for mut backend in backends() {
        let mut plan = Plan::default();
        let [qkv, decay, beta, out] = [64, 4, 4, 32].map(|width| plan.buffer(Rows::Batch, width));
        let state = plan.recurrent(256);
        let (sharing, eps) = (KeySharing::Tiled, 1e-6);
        let mut rule =
            DeltaRule { state, qkv, decay, beta, key_heads: 2, heads: 4, key_dim: 8, value_dim: 8, sharing, eps, out };
        change(&mut rule);
        plan.push(Op::DeltaRule(rule));
        let error = backend.prepare(plan, LIMITS).expect_err("the plan is not sound").to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
}

#[test]
fn invalid_linear_attention_is_refused() {
    check_rule(|rule| rule.heads = 3, "3 heads of 8 do not share 2 key heads of 8 evenly");
    check_rule(|rule| rule.key_heads = 0, "4 heads of 8 do not share 0 key heads of 8 evenly");
    check_rule(|rule| rule.key_dim = usize::MAX, "do not share 2 key heads of 18446744073709551615 evenly");
    check_rule(|rule| rule.value_dim = 7, "recurrent state 0 has 256 elements, its op needs 224");
    check_rule(|rule| rule.qkv = rule.out, "buffer 3 is Buffer { rows: Batch, width: 32 }, not");
    check_rule(|rule| rule.decay = rule.qkv, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_rule(|rule| rule.beta = rule.qkv, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_rule(|rule| rule.out = rule.qkv, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_rule(|rule| rule.eps = -1.0, "eps is -1");
    check_rule(|rule| rule.state = RecurrentId(1), "there is no recurrent state 1");
}

#[test]
fn invalid_decays_are_refused() {
    for mut backend in backends() {
        let [rate, bias] = [4, 5]
            .map(|len| backend.upload(matrix(&mut Random(1), DType::F32, 1, len, 1.0)).expect("the weight is sound"));
        let mut plan = Plan::default();
        let x = plan.buffer(Rows::Batch, 4);
        plan.push(Op::Decay { x, rate, bias });
        let error = backend.prepare(plan, LIMITS).expect_err("the plan is not sound").to_string();
        assert!(error.contains("is 1 x 5, not a vector of 4"), "{error}");
    }
}
