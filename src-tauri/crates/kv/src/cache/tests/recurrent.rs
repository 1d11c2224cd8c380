//! Recurrent layers: their states exist only after a few tokens of a sequence.

use std::time::Duration;

use cairn_tier::Group;

use super::tiers::ModelWorld;
use super::*;
use crate::RestorePoll;

const RECURRENT: Layers = Layers { window: None, is_chunk: false, recurrent: true, state_chunks: 0 };

fn world(budget_pages: u64) -> World {
    World::with_layers(budget_pages, RECURRENT)
}

fn model_world(budget_pages: u64) -> ModelWorld {
    ModelWorld::with_layers(budget_pages, 16 << 20, RECURRENT)
}

#[test]
fn sequence_continues_at_multiples_of_a_chunk_and_at_ends() {
    let mut world = world(400);
    world.prompt(&tokens(0..1000));
    assert!(world.append(0, &tokens(1000..1010)), "the answer fits");
    world.close(0);
    // The longer prompt replaces the tail of the first one, and its snapshot.
    for (end, cached) in [(1200, 1010), (1010, 768), (1011, 768), (1025, 1024), (769, 768), (768, 512), (256, 0)] {
        assert_eq!(world.prompt(&tokens(0..end)), Some(cached), "of {end} tokens");
        world.check();
    }
    let edited: Vec<u32> = (0..600).chain(5000..5100).collect();
    assert_eq!(world.prompt(&edited), Some(512), "the last snapshot before the edit");
    world.check();
}

#[test]
fn running_sequence_is_truncated_to_a_snapshot() {
    let mut world = world(400);
    world.prompt(&tokens(0..700));
    let (seq, content) = &mut world.open[0];
    assert_eq!(world.cache.truncate(*seq, 700), 700, "nothing is dropped");
    assert_eq!(world.cache.truncate(*seq, 699), 512, "there is no later snapshot");
    content.truncate(512);
    world.check();
    assert!(world.append(0, &tokens(512..900)), "it continues from there");
    world.check();
}

#[test]
fn repeated_step_reads_the_same_states() {
    let mut world = world(400);
    world.prompt(&tokens(0..300));
    let (seq, _) = world.open[0];
    let mut tables = [SnapshotTable::default(), SnapshotTable::default()];
    for table in &mut tables {
        world.cache.reserve(&mut world.backend, seq, 300).expect("there is room");
        world.cache.write_snapshots(seq, table);
        world.backend.compute_states(table, 300, &tokens(9000..9300));
    }
    assert_eq!(tables[0], tables[1], "a slice in progress keeps its snapshots");
    assert_eq!(
        tables[0].to.iter().map(|(tokens, _)| *tokens).collect::<Vec<_>>(),
        [512, 600],
        "at a multiple, and at the end"
    );
    // Another reservation abandons the first one.
    assert!(world.append(0, &tokens(300..400)), "there is room");
    world.check();
}

#[test]
fn snapshots_of_idle_pages_are_evicted_first() {
    // A full page and a snapshot have the same size. Half of the budget is for snapshots.
    let mut world = world(64);
    world.prompt(&tokens(0..1025));
    world.close(0);
    world.prompt(&tokens(10_000..12_000));
    world.check();
    world.close(0);
    for chat in 2..12 {
        world.prompt(&tokens(chat * 10_000..chat * 10_000 + 520));
        world.check();
        world.close(0);
    }
    assert!(world.backend.snapshots.len() <= 33, "{} snapshots", world.backend.snapshots.len());
    assert_eq!(world.prompt(&tokens(110_000..110_600)), Some(520), "the latest snapshot is there");
    world.check();
}

#[test]
fn states_of_overwritten_rows_are_dropped() {
    let mut world = world(400);
    world.prompt(&tokens(0..100));
    let (seq, _) = world.open.remove(0);
    world.cache.discard(seq);
    assert_eq!(world.prompt(&tokens(0..40)), Some(0), "the page has rows only");
    world.close(0);
    let other: Vec<u32> = (0..40).chain(5000..5054).collect();
    let (seq, cached) = world.cache.open(&other);
    assert_eq!(cached, 40, "the page has the states after 40 tokens");
    world.open.push((seq, other[..40].to_vec()));
    assert_eq!(world.prompt(&tokens(0..60)), Some(40), "the same page");
    // It has the states after 60 tokens now.
    world.close(1);
    world.backend.memory_pages = Some(world.backend.pages.len());
    world.prompt(&tokens(9000..9064));
    assert_eq!(world.cache.pool.free(), 0, "no page is free for a copy");
    let (page, copied) = (world.cache.pages(seq)[0], world.cache.stats().copied_pages);
    assert!(world.append(0, &other[40..64]), "the sequence writes to the page that it had shared");
    assert_eq!((world.cache.pages(seq)[0], world.cache.stats().copied_pages), (page, copied), "it was not copied");
    world.backend.memory_pages = None;
    assert!(world.append(0, &other[64..]), "there is room");
    world.close(0);
    assert_eq!(world.prompt(&other[..63]), Some(0), "the states of other tokens are not used");
    world.check();
}

#[test]
fn rows_cannot_be_shifted() {
    let mut world = world(400);
    world.prompt(&tokens(0..700));
    let (seq, _) = world.open[0];
    let rotation = crate::Rotation::from_plan(&cairn_tensor::Plan::default(), cairn_gguf::DType::F16).expect("no keys");
    let shifted = world.cache.shift(&mut world.backend, seq, 64, &rotation);
    assert!(matches!(shifted, Err(ShiftError::Recurrent)), "{shifted:?}");
    let mut plan = cairn_tensor::Plan::default();
    plan.recurrent(8);
    let rotation = crate::Rotation::from_plan(&plan, cairn_gguf::DType::F16);
    assert_eq!(rotation.err(), Some(crate::RotationError::Recurrent), "the rotation is refused when a model loads");
}

#[test]
fn reloaded_model_continues_at_the_last_chunk_or_end() {
    let mut model = model_world(400);
    model.prompt(&tokens(0..1000));
    model.reload();
    assert_eq!(model.prompt(&tokens(0..1001)), 1000, "up to the end");
    model.reload();
    assert_eq!(model.prompt(&tokens(0..1000)), 768, "the tail is not usable without its last token");
    model.reload();
    let edited: Vec<u32> = (0..600).chain(5000..5600).collect();
    assert_eq!(model.prompt(&edited), 512, "the last chunk before the edit");
    model.reload();
    assert_eq!(model.prompt(&edited), 1024, "both chunks after the edit are stored");
    model.world.close(0);
    assert_eq!(model.world.prompt(&tokens(0..700)), Some(0), "the states inside the restored prefix were not read");
    model.world.check();
}

#[test]
fn chunks_are_stored_without_lost_states() {
    let mut model = model_world(400);
    model.prompt(&tokens(0..1000));
    model.reload();
    let stored = |model: &ModelWorld, group: Group, prompt: Range<u32>, ends: &[usize]| -> Vec<bool> {
        let keys: Vec<Key> = prompt.map(Key::token).collect();
        let tiers = model.world.cache.tiers.as_ref().expect("the cache has tiers");
        let id = |end: usize| tiers.model.chunk_id(group, &keys[..end]).0;
        ends.iter().map(|&end| model.tiers.contains(&id(end))).collect()
    };
    let groups = [Group::Full, Group::Window];
    for group in groups {
        assert_eq!(
            stored(&model, group, 0..1000, &[256, 512, 768, 1000]),
            [true; 4],
            "all chunks and the tail: {group:?}"
        );
    }
    // The states of a chunk without a snapshot are not stored.
    model.prompt(&tokens(50_000..50_600));
    let pages: Vec<PageId> = model.world.cache.pages(model.world.open[0].0).to_vec();
    pages.iter().for_each(|&page| model.world.cache.pool.drop_snapshot(page));
    model.reload();
    let found = groups.map(|group| stored(&model, group, 50_000..50_600, &[256, 512, 600]));
    assert_eq!(found, [vec![true; 3], vec![false, false, true]], "rows, and only the last states");
    assert_eq!(model.prompt(&tokens(50_000..50_700)), 600, "they are enough");
}

#[test]
fn large_states_are_stored_at_a_stride_and_at_ends() {
    // A snapshot of four chunks' bytes.
    let mut model = ModelWorld::with_layers(4000, 64 << 20, Layers { state_chunks: 4, ..RECURRENT });
    assert_eq!(model.world.cache.state_stride, 1024, "the stride grows with the states");
    model.prompt(&tokens(0..3000));
    let id = |model: &ModelWorld, end: usize| {
        let keys: Vec<Key> = (0..end as u32).map(Key::token).collect();
        model.world.cache.tiers.as_ref().expect("the cache has tiers").model.chunk_id(Group::Window, &keys).0
    };
    model.reload();
    let ends: Vec<usize> = (1..12).map(|chunk| chunk * 256).chain([3000]).collect();
    let tiers = &model.world.cache.tiers.as_ref().expect("the cache has tiers").model.tiers;
    let stored: Vec<usize> = ends.into_iter().filter(|&end| tiers.contains(&id(&model, end))).collect();
    assert_eq!(stored, [1024, 2048, 2816, 3000], "at the stride, at the last whole chunk and at the end");
    assert_eq!(model.prompt(&tokens(0..3001)), 3000, "up to the end");
    model.reload();
    let edited: Vec<u32> = (0..2500).chain(5000..5600).collect();
    assert_eq!(model.prompt(&edited), 2048, "the last states before the edit");
    model.world.check();
}

#[test]
fn cancelled_restore_leaves_the_sequence_at_a_snapshot() {
    let mut model = model_world(400);
    model.prompt(&tokens(0..3000));
    model.reload();
    let prompt = tokens(0..3001);
    for polls in 0..12 {
        let World { backend, cache, .. } = &mut model.world;
        let (seq, cached) = cache.open(&prompt);
        let Some(mut restore) = cache.begin_restore(seq, &prompt).restore else { break };
        // Chunks of earlier iterations are in memory, so a later restore may have ended.
        let mut poll = || cache.poll_restore(backend, seq, &prompt, &mut restore);
        let has_ended = (0..polls).any(|_| !matches!(poll(), RestorePoll::Tokens(0, _) | RestorePoll::Pending));
        drop(restore);
        let len = cache.len(seq);
        assert!(
            has_ended || len == cached,
            "restored tokens are usable at the end of the restore: {len}, not {cached}"
        );
        model.world.open.push((seq, prompt[..len].to_vec()));
        let next: Vec<u32> = (90_000..90_100).collect();
        assert!(model.world.append(0, &next), "there is room");
        model.world.check();
        let (seq, _) = model.world.open.pop().expect("it is open");
        model.world.cache.discard(seq);
    }
}

#[test]
fn restore_reports_all_usable_tokens() {
    let mut model = model_world(400);
    model.prompt(&tokens(0..1000));
    model.reload();
    // The states after 768 and after 900 tokens are in memory, and rows up to there.
    model.world.prompt(&tokens(0..900));
    model.world.close(0);
    let prompt = tokens(0..1100);
    let (seq, cached) = model.world.cache.open(&prompt);
    let mut restore = model.world.cache.begin_restore(seq, &prompt).restore.expect("the tiers have more");
    assert_eq!((cached, model.world.cache.len(seq)), (900, 768), "a restore begins at a whole page");
    // Another sequence adds the states after 850 tokens to a page that both have.
    model.world.prompt(&tokens(0..850));
    model.world.close(0);
    let mut len = model.world.cache.len(seq);
    model.tiers.clear(Duration::ZERO);
    loop {
        match model.world.cache.poll_restore(&mut model.world.backend, seq, &prompt, &mut restore) {
            RestorePoll::Tokens(tokens, _) => len += tokens,
            RestorePoll::Pending => std::thread::yield_now(),
            end => break assert!(end.recompute_reason().is_some(), "the chunks are deleted: {end:?}"),
        }
    }
    assert_eq!(model.world.cache.len(seq), len, "the caller computes after the reported tokens");
    model.world.open.push((seq, prompt[..len].to_vec()));
    model.world.check();
}
