//! Layers with a window, whose rows tiers keep near a few places only.

use cairn_tier::Group;

use super::tiers::Place;
use super::*;

/// Of the layer under test, in tokens. Chunks that see a multiple of 2,048: two of eight.
const WINDOW: usize = 400;
const LEN: u32 = 7000;

fn place() -> Place {
    Place::with_window(400, 16 << 20, Some(WINDOW))
}

/// Chunks in RAM with rows of a group.
fn chunks(place: &Place, group: Group) -> usize {
    let keys = tokens(0..LEN).into_iter().map(Key::token).collect::<Vec<_>>();
    let keeper = place.world.cache.keeper.as_ref().expect("it keeps");
    let ends = (256..=LEN as usize).step_by(256).chain([LEN as usize]);
    ends.filter(|&end| place.tiers.holds(&keeper.keeping.name(group, &keys[..end]).0)).count()
}

#[test]
fn windows_are_kept_near_anchors_only() {
    let mut place = place();
    place.prompt(&tokens(0..LEN));
    place.reload();
    assert_eq!(chunks(&place, Group::Full), 28, "27 whole chunks and a tail");
    assert_eq!(chunks(&place, Group::Window), 3 * 2 + 3, "three multiples of 2,048, and the end");
}

#[test]
fn a_reloaded_model_goes_on_where_it_was() {
    let mut place = place();
    place.prompt(&tokens(0..LEN));
    place.reload();
    assert_eq!(place.prompt(&tokens(0..LEN + 100)), LEN as usize, "from the end");
    assert_eq!(place.prompt(&tokens(0..LEN + 50)), 0, "and from memory then");
}

/// Edits of a conversation at many distances, each in a model that was loaded anew, or after another edit in the same one.
#[test]
fn an_edit_anywhere_reuses_all_but_the_last_stride() {
    let mut place = place();
    place.prompt(&tokens(0..LEN));
    for reload in [true, false] {
        for at in (1..LEN).step_by(487).chain([2047, 2048, 2049, 2448, 4096, 6143, LEN - 1]) {
            if reload {
                place.reload();
                // Most of its pages lack rows of windows then.
                place.prompt(&tokens(0..LEN + 1));
            }
            let edited: Vec<u32> = (0..at).chain(50_000 + at..50_300 + at).collect();
            let before = place.world.cache.stats().hit_tokens;
            let recalled = place.prompt(&edited);
            let reused = recalled + (place.world.cache.stats().hit_tokens - before) as usize;
            assert!(reused + 2048 >= at as usize, "{reused} of {at} tokens, reloaded {reload}");
            while !place.world.open.is_empty() {
                place.world.close(0);
            }
        }
    }
}

#[test]
fn the_next_turn_goes_on_at_the_end_of_the_last() {
    let mut place = place();
    for turn in 1..12 {
        let recalled = place.prompt(&tokens(0..turn * 300));
        assert_eq!(recalled, (turn - 1) as usize * 300, "turn {turn}");
        place.reload();
    }
}

#[test]
fn a_branch_goes_on_where_the_first_turn_ended() {
    let mut place = place();
    place.prompt(&tokens(0..1500));
    place.world.close(0);
    place.prompt(&tokens(0..3000));
    place.reload();
    let branch: Vec<u32> = (0..1500).chain(60_000..60_500).collect();
    assert_eq!(place.prompt(&branch), 1500, "the windows before the end of the first turn are kept");
}

#[test]
fn a_recall_that_is_given_up_leaves_what_was_there() {
    let mut place = place();
    place.prompt(&tokens(0..LEN));
    place.reload();
    let prompt = tokens(0..LEN + 1);
    let World { backend, cache, .. } = &mut place.world;
    let (seq, cached) = cache.open(&prompt);
    let mut recall = cache.recall(seq, &prompt).recall.expect("all is kept");
    for _ in 0..5 {
        cache.absorb(backend, seq, &prompt, &mut recall);
    }
    drop(recall);
    assert_eq!((cached, cache.len(seq)), (0, 0), "nothing is of use before its window has come");
    place.world.open.push((seq, Vec::new()));
    assert!(place.world.append(0, &tokens(0..500)), "it is computed instead");
    place.world.check();
    place.world.close(0);
    assert_eq!(place.world.cache.open(&tokens(0..500)).1, 499, "what was computed took the place of what lacked rows");
}

#[test]
fn a_sequence_is_cut_to_where_it_can_go_on() {
    let mut place = place();
    place.prompt(&tokens(0..LEN));
    place.reload();
    place.prompt(&tokens(0..LEN + 1));
    let (seq, _) = place.world.open[0];
    assert_eq!(place.world.cache.truncate(seq, 6999), 6999, "its window is in memory");
    let left = place.world.cache.truncate(seq, 5000);
    assert_eq!(left, 0, "no window before was brought back");
}
