//! Window layers, whose rows are stored near a few positions only.

use cairn_tier::Group;

use super::tiers::ModelWorld;
use super::*;

/// Window of the layer under test, in tokens. Two chunks of eight are within a window before a multiple of 2,048.
const WINDOW: usize = 400;
const LEN: u32 = 7000;

fn model_world() -> ModelWorld {
    ModelWorld::with_layers(400, 16 << 20, Layers { window: Some(WINDOW), ..Layers::default() })
}

/// Number of chunks in RAM with rows of a group.
fn chunks(model: &ModelWorld, group: Group) -> usize {
    let keys = tokens(0..LEN).into_iter().map(Key::token).collect::<Vec<_>>();
    let tiers = model.world.cache.tiers.as_ref().expect("the cache has tiers");
    let ends = (256..=LEN as usize).step_by(256).chain([LEN as usize]);
    ends.filter(|&end| model.tiers.contains(&tiers.model.chunk_id(group, &keys[..end]).0)).count()
}

#[test]
fn window_rows_are_stored_only_near_strides_and_prompt_end() {
    let mut model = model_world();
    model.prompt(&tokens(0..LEN));
    model.reload();
    assert_eq!(chunks(&model, Group::Full), 28, "27 full chunks and a tail");
    assert_eq!(chunks(&model, Group::Window), 3 * 2 + 3, "three multiples of 2,048, and the end");
}

#[test]
fn reloaded_model_continues_at_end() {
    let mut model = model_world();
    model.prompt(&tokens(0..LEN));
    model.reload();
    assert_eq!(model.prompt(&tokens(0..LEN + 100)), LEN as usize, "restored up to the end");
    assert_eq!(model.prompt(&tokens(0..LEN + 50)), 0, "the rows are in pages now");
}

/// Edits of a conversation at many positions, each in a reloaded model or after another edit in the same model.
#[test]
fn edit_reuses_all_but_last_stride() {
    let mut model = model_world();
    model.prompt(&tokens(0..LEN));
    for reload in [true, false] {
        for at in (1..LEN).step_by(487).chain([2047, 2048, 2049, 2448, 4096, 6143, LEN - 1]) {
            if reload {
                model.reload();
                // Most of its pages lack window rows then.
                model.prompt(&tokens(0..LEN + 1));
            }
            let edited: Vec<u32> = (0..at).chain(50_000 + at..50_300 + at).collect();
            let before = model.world.cache.stats().hit_tokens;
            let restored_tokens = model.prompt(&edited);
            let reused = restored_tokens + (model.world.cache.stats().hit_tokens - before) as usize;
            assert!(reused + 2048 >= at as usize, "{reused} of {at} tokens, reloaded {reload}");
            while !model.world.open.is_empty() {
                model.world.close(0);
            }
        }
    }
}

#[test]
fn next_turn_continues_at_end_of_last_turn() {
    let mut model = model_world();
    for turn in 1..12 {
        let restored_tokens = model.prompt(&tokens(0..turn * 300));
        assert_eq!(restored_tokens, (turn - 1) as usize * 300, "turn {turn}");
        model.reload();
    }
}

#[test]
fn branch_continues_at_end_of_first_turn() {
    let mut model = model_world();
    model.prompt(&tokens(0..1500));
    model.world.close(0);
    model.prompt(&tokens(0..3000));
    model.reload();
    let branch: Vec<u32> = (0..1500).chain(60_000..60_500).collect();
    assert_eq!(model.prompt(&branch), 1500, "the window rows before the end of the first turn are stored");
}

#[test]
fn cancelled_restore_leaves_sequence_usable() {
    let mut model = model_world();
    model.prompt(&tokens(0..LEN));
    model.reload();
    let prompt = tokens(0..LEN + 1);
    let World { backend, cache, .. } = &mut model.world;
    let (seq, cached) = cache.open(&prompt);
    let mut restore = cache.begin_restore(seq, &prompt).restore.expect("all rows are stored");
    for _ in 0..5 {
        cache.poll_restore(backend, seq, &prompt, &mut restore);
    }
    drop(restore);
    assert_eq!((cached, cache.len(seq)), (0, 0), "no token is usable without its window");
    model.world.open.push((seq, Vec::new()));
    assert!(model.world.append(0, &tokens(0..500)), "pages are free");
    model.world.check();
    model.world.close(0);
    assert_eq!(model.world.cache.open(&tokens(0..500)).1, 499, "computed pages replaced pages without window rows");
}

#[test]
fn truncate_stops_where_window_rows_exist() {
    let mut model = model_world();
    model.prompt(&tokens(0..LEN));
    model.reload();
    model.prompt(&tokens(0..LEN + 1));
    let (seq, _) = model.world.open[0];
    assert_eq!(model.world.cache.truncate(seq, 6999), 6999, "the window rows are in pages");
    let left = model.world.cache.truncate(seq, 5000);
    assert_eq!(left, 0, "no earlier window rows were restored");
}
