//! A search in many chunks. The times depend on the machine and the build, so they are printed and not asserted:
//! `cargo test --release -p cairn-collections many -- --nocapture`.

use std::time::Instant;

use super::*;

const CHUNKS: usize = 10_000;
const WIDTH: usize = 384;

/// Pseudo-random numbers from -0.5 to 0.5.
fn numbers(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 40) as f32 / (1 << 24) as f32 - 0.5)
    })
}

fn vector(seed: u64) -> Vec<f32> {
    let vector: Vec<f32> = numbers(seed).take(WIDTH).collect();
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / length).collect()
}

#[test]
fn many_chunks_are_searched_exactly() {
    let home = Home::new();
    let id = home.begin("many.pdf");
    let words = ["river", "granite", "window", "letter", "green", "paper", "train", "answer"];
    let sentence = |n: usize| -> String {
        numbers(n as u64).take(60).map(|x| words[((x + 0.5) * 8.0) as usize % 8]).collect::<Vec<_>>().join(" ")
    };
    let chunk = |n: usize| Chunk {
        place: PartPlace::Whole,
        text: format!("{} number{n}", sentence(n)),
        start: 0,
        end: 1,
        is_dense: false,
    };
    let many = NewText { format: DocumentFormat::Text, pages: None, chunks: (0..CHUNKS).map(chunk).collect() };
    let began = Instant::now();
    home.store.store_text("c", &id, &many).expect("stored");
    println!("{CHUNKS} chunks stored in {:?}", began.elapsed());
    home.store.begin_vectors("c", "m").expect("the collection");
    let pending = home.store.pending_chunks("c", true, usize::MAX).expect("chunks");
    let vectors: Vec<_> = pending.iter().map(|chunk| (chunk.row, vector(chunk.row.unsigned_abs()))).collect();
    let began = Instant::now();
    home.store.store_vectors("c", "m", &vectors).expect("stored");
    println!("their vectors stored in {:?}", began.elapsed());

    // Each vector is its own nearest neighbour, which an approximate search could miss.
    for at in [0, 1, CHUNKS / 2, CHUNKS - 1] {
        let (row, vector) = &vectors[at];
        let began = Instant::now();
        let nearest = home.store.read(|reader| vector::nearest(reader, 1, vector, 10)).expect("rows");
        println!("vectors compared in {:?}", began.elapsed());
        assert_eq!((nearest[0], nearest.len()), (*row, 10));
    }
    let began = Instant::now();
    let hits = home.search("which river has the green granite number77", None);
    println!("words searched in {:?}", began.elapsed());
    assert!(hits[0].text.ends_with("number77"), "the rare word is the most important: {}", hits[0].text);
}
