//! What is found, forgotten and never known depends on whose it is.

use cairn_tier::Owner;

use super::*;

fn whose(space: &str, owner: &str) -> Whose {
    Whose { space: (!space.is_empty()).then(|| space.into()), owner: Owner::new(owner), incognito: false }
}

impl World {
    /// Computes a prompt for somebody and closes it; returns what was found.
    fn say(&mut self, tokens: &[u32], whose: &Whose) -> usize {
        let (seq, found) = self.cache.open_for(tokens, whose);
        self.open.push((seq, tokens[..found].to_vec()));
        let last = self.open.len() - 1;
        assert!(self.append(last, &tokens[found..]), "there is room");
        self.check();
        self.close(last);
        self.check();
        found
    }
}

#[test]
fn spaces_share_nothing() {
    let mut world = World::new(64);
    let said = tokens(0..300);
    for space in ["", "ann", "bob"] {
        assert_eq!(world.say(&said, &whose(space, "")), 0, "nobody of {space:?} has said it");
        assert_eq!(world.cache.peek(&said, Some(space).filter(|name| !name.is_empty())).tokens, 300, "now it is known");
    }
    assert_eq!(world.say(&said, &whose("ann", "")), 299, "and found there");
    assert_eq!(world.cache.peek(&said, Some("eve")), Peek { tokens: 0, next: None }, "and nowhere else");
}

#[test]
fn spaces_that_hold_nothing_are_not_remembered_for_ever() {
    let mut world = World::new(64);
    world.say(&tokens(0..300), &whose("stays", ""));
    for space in 0..1000 {
        let (seq, _) = world.cache.open_for(&tokens(0..10), &whose(&space.to_string(), ""));
        world.cache.close(seq);
    }
    assert!(world.cache.spaces.roots.len() <= 64, "{} of 1001", world.cache.spaces.roots.len());
    assert_eq!(world.say(&tokens(0..300), &whose("stays", "")), 299, "one that holds something is");
}

#[test]
fn an_incognito_sequence_finds_and_leaves_nothing() {
    let mut world = World::new(64);
    let incognito = Whose { incognito: true, ..Whose::default() };
    world.say(&tokens(0..100), &Whose::default());
    let before = world.cache.stats().cached_pages;
    assert_eq!(world.say(&tokens(0..500), &incognito), 100, "it finds what others left");
    assert_eq!(world.cache.stats().cached_pages, before, "and leaves no page");
    assert_eq!(world.say(&tokens(0..500), &Whose::default()), 100, "nobody finds what it computed");

    let (seq, _) = world.cache.open_for(&tokens(1000..1200), &incognito);
    world.open.push((seq, Vec::new()));
    assert!(world.append(0, &tokens(1000..1200)), "there is room");
    assert_eq!(world.cache.peek(&tokens(1000..1200), None).tokens, 0, "not while it runs either");
    world.check();
}

#[test]
fn what_two_owners_share_stays_until_both_have_gone() {
    let mut world = World::new(64);
    let system = 0..200;
    let ann: Vec<u32> = system.clone().chain(1000..1300).collect();
    let bob: Vec<u32> = system.clone().chain(2000..2300).collect();
    world.say(&ann, &whose("", "ann"));
    world.say(&bob, &whose("", "bob"));
    world.cache.forget_owner(&Owner::new("ann").expect("short"));
    world.check();
    // The page in which the two part is a page for each; the shared one ends at a page's end.
    assert_eq!(world.cache.peek(&ann, None).tokens, 200, "what is only hers is gone");
    assert_eq!(world.cache.peek(&bob, None).tokens, 500, "what is his too is not");
    world.cache.forget_owner(&Owner::new("bob").expect("short"));
    assert_eq!(world.cache.stats().cached_pages, 0, "now nobody owns any of it");
}

#[test]
fn a_prompt_that_parts_says_where_and_from_what() {
    let mut world = World::new(64);
    world.say(&tokens(0..300), &Whose::default());
    let check = |asked: Vec<u32>, tokens: usize, next: Option<u32>| {
        let expected = Peek { tokens, next: next.map(Key::token) };
        assert_eq!(world.cache.peek(&asked, None), expected, "{asked:?}");
    };
    check((0..150).chain([7, 7]).collect(), 150, Some(150));
    check((0..128).chain([7, 7]).collect(), 128, Some(128));
    check(tokens(0..400), 300, None);
    check(tokens(0..200), 200, None);
    check(vec![9], 0, Some(0));
}
