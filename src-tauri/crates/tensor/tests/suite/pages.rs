//! Pages of every type: copies, sections, and the precision of each type.

use cairn_gguf::DType;
use cairn_kernels::KV_TYPES;
use cairn_tensor::{Backend, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, Plan, Reference, State, StateId, StateKind};

use crate::common::{all_variants, cpu, tiny};
use crate::model::logits;

/// A backend with pages of one layer, of 64 KiB or more, so that some hundred fill several slabs.
fn with_pages(backend: &mut dyn Backend, pages: usize) -> PageLayout {
    let mut plan = Plan::default();
    plan.state(State::new(StateKind::Full, 4, 64));
    plan.state(State::new(StateKind::Full, 4, 64));
    let layout = plan.page_layout(backend.caps().kv_type);
    backend.prepare(plan, Limits { rows: 1, logit_rows: 1 }).expect("an empty plan is sound");
    backend.grow_pages(3).expect("a few pages can be had");
    backend.grow_pages(pages).expect("a few more, too");
    layout
}

#[test]
fn page_sections_are_copied_read_and_written() {
    let scalar = || cpu(all_variants().last().expect("scalar is usable"), 2);
    let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Reference::new())];
    for kv_type in KV_TYPES {
        backends.push(Box::new(scalar().with_kv_type(kv_type)));
        backends.push(Box::new(Reference::with_kv_type(kv_type)));
    }
    for mut backend in backends {
        let layout = with_pages(backend.as_mut(), 150);
        let bytes: Vec<u8> = (0..layout.page_bytes).map(|index| (index % 251) as u8).collect();
        let mut found = vec![0; layout.page_bytes];
        // Neighbours, and pages in slabs apart.
        for (from, to, tokens) in [(0, 1, 10), (2, 149, 64), (148, 0, 1), (149, 149, 0)] {
            let [from, to] = [from, to].map(PageId);
            backend.write_page(to, &vec![0; layout.page_bytes]);
            backend.write_page(from, &bytes);
            backend.copy_page(from, to, tokens);
            backend.read_page(from, &mut found);
            assert_eq!(found, bytes, "the page that is copied keeps its bytes");
            backend.read_page(to, &mut found);
            let [slot_bytes, _] = layout.row_bytes[0];
            for (at, (found, written)) in found.iter().zip(&bytes).enumerate() {
                let copied = from == to || at / slot_bytes % PAGE_TOKENS < tokens;
                assert_eq!(*found, if copied { *written } else { 0 }, "byte {at} of {to:?} after {tokens} slots");
            }
        }
        let mut joined: Vec<u8> = Vec::new();
        for (state, kv) in (0..2).flat_map(|state| Kv::ALL.map(|kv| (StateId(state), kv))) {
            let range = layout.section(state, kv);
            assert_eq!(range.start, joined.len(), "sections follow each other");
            let mut section = vec![0; range.len()];
            backend.read_section(PageId(148), state, kv, &mut section);
            joined.extend(&section);
            section.reverse();
            backend.write_section(PageId(3), state, kv, &section);
        }
        assert_eq!(joined, bytes, "the sections are the page");
        backend.read_page(PageId(3), &mut found);
        for (at, section) in bytes.chunks(layout.page_bytes / 4).enumerate() {
            let start = at * section.len();
            assert!(found[start..].iter().zip(section.iter().rev()).all(|(a, b)| a == b), "section {at} is written");
        }
    }
}

#[test]
fn page_type_costs_its_expected_precision() {
    let exact = logits(&mut Reference::new(), tiny, DType::F32, 310);
    let norm: f64 = exact.iter().map(|x| f64::from(*x).powi(2)).sum();
    // The error in a model's logits, relative to them, as measured when this was written.
    let recorded = [(DType::F16, 3.7e-4), (DType::BF16, 3.2e-3), (DType::Q8_0, 9.5e-3), (DType::Q4_0, 0.15)];
    let found = recorded.map(|(kv_type, _)| {
        let found = logits(&mut Reference::with_kv_type(kv_type), tiny, DType::F32, 310);
        let squares = found.iter().zip(&exact).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
        (kv_type, (squares.sum::<f64>() / norm).sqrt())
    });
    let alike = found.iter().zip(&recorded).all(|((_, found), (_, recorded))| (0.7..1.4).contains(&(found / recorded)));
    assert!(alike, "root mean squares are {found:?}, recorded are {recorded:?}");
}
