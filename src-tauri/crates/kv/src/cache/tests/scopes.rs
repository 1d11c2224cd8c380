//! Scopes, owners and incognito sequences.

use cairn_tier::Owner;

use super::*;

fn scope(name: &str, owner: &str) -> CacheScope {
    CacheScope { name: (!name.is_empty()).then(|| name.into()), owner: Owner::new(owner), incognito: false }
}

impl World {
    /// Computes a prompt in a scope and closes the sequence. Returns the number of cached tokens.
    fn compute(&mut self, tokens: &[u32], scope: &CacheScope) -> usize {
        let (seq, cached) = self.cache.open_scoped(tokens, scope);
        self.open.push((seq, tokens[..cached].to_vec()));
        let last = self.open.len() - 1;
        assert!(self.append(last, &tokens[cached..]), "pages are free");
        self.check();
        self.close(last);
        self.check();
        cached
    }
}

#[test]
fn scopes_share_no_rows() {
    let mut world = World::new(64);
    let prompt = tokens(0..300);
    for name in ["", "ann", "bob"] {
        assert_eq!(world.compute(&prompt, &scope(name, "")), 0, "not cached in scope {name:?}");
        assert_eq!(
            world.cache.find_prefix(&prompt, Some(name).filter(|name| !name.is_empty())).tokens,
            300,
            "cached in scope {name:?}"
        );
    }
    assert_eq!(world.compute(&prompt, &scope("ann", "")), 299, "cached in its own scope");
    assert_eq!(
        world.cache.find_prefix(&prompt, Some("eve")),
        PrefixMatch { tokens: 0, next: None },
        "not cached in another scope"
    );
}

#[test]
fn empty_scopes_are_removed() {
    let mut world = World::new(64);
    world.compute(&tokens(0..300), &scope("stays", ""));
    for number in 0..1000 {
        let (seq, _) = world.cache.open_scoped(&tokens(0..10), &scope(&number.to_string(), ""));
        world.cache.close(seq);
    }
    assert!(world.cache.scopes.roots.len() <= 64, "{} of 1001", world.cache.scopes.roots.len());
    assert_eq!(world.compute(&tokens(0..300), &scope("stays", "")), 299, "a scope with rows is not removed");
}

#[test]
fn incognito_sequence_uses_rows_and_adds_none() {
    let mut world = World::new(64);
    let incognito = CacheScope { incognito: true, ..CacheScope::default() };
    world.compute(&tokens(0..100), &CacheScope::default());
    let before = world.cache.stats().cached_pages;
    assert_eq!(world.compute(&tokens(0..500), &incognito), 100, "it uses the rows of others");
    assert_eq!(world.cache.stats().cached_pages, before, "it adds no page");
    assert_eq!(world.compute(&tokens(0..500), &CacheScope::default()), 100, "its rows are not cached");

    let (seq, _) = world.cache.open_scoped(&tokens(1000..1200), &incognito);
    world.open.push((seq, Vec::new()));
    assert!(world.append(0, &tokens(1000..1200)), "pages are free");
    assert_eq!(world.cache.find_prefix(&tokens(1000..1200), None).tokens, 0, "nor while it runs");
    world.check();
}

#[test]
fn shared_rows_stay_until_all_owners_are_deleted() {
    let mut world = World::new(64);
    let system = 0..200;
    let ann: Vec<u32> = system.clone().chain(1000..1300).collect();
    let bob: Vec<u32> = system.clone().chain(2000..2300).collect();
    world.compute(&ann, &scope("", "ann"));
    world.compute(&bob, &scope("", "bob"));
    world.cache.forget_owner(&Owner::new("ann").expect("short"));
    world.check();
    // Each owner has a page of its own where the prompts diverge.
    assert_eq!(world.cache.find_prefix(&ann, None).tokens, 200, "rows of this owner alone are dropped");
    assert_eq!(world.cache.find_prefix(&bob, None).tokens, 500, "rows of the other owner stay");
    world.cache.forget_owner(&Owner::new("bob").expect("short"));
    assert_eq!(world.cache.stats().cached_pages, 0, "no owner is left");
}

#[test]
fn prefix_match_reports_diverging_key() {
    let mut world = World::new(64);
    world.compute(&tokens(0..300), &CacheScope::default());
    let check = |prompt: Vec<u32>, tokens: usize, next: Option<u32>| {
        let expected = PrefixMatch { tokens, next: next.map(Key::token) };
        assert_eq!(world.cache.find_prefix(&prompt, None), expected, "{prompt:?}");
    };
    check((0..150).chain([7, 7]).collect(), 150, Some(150));
    check((0..128).chain([7, 7]).collect(), 128, Some(128));
    check(tokens(0..400), 300, None);
    check(tokens(0..200), 200, None);
    check(vec![9], 0, Some(0));
}
