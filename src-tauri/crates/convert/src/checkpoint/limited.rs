//! Lists and maps of JSON with limits. Parsing ends at the limit, so a hostile file gets no memory beyond it.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Largest number of items of a list or a map.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    max: usize,
    /// Subject of the error, for example "it".
    owner: &'static str,
    /// Plural of the items, for example "tokens".
    items: &'static str,
}

impl Limit {
    pub(super) const fn new(max: usize, owner: &'static str, items: &'static str) -> Self {
        Self { max, owner, items }
    }

    /// Checks that another item may be added to `count` items.
    pub(super) fn check<E: Error>(self, count: usize) -> Result<(), E> {
        let Self { max, owner, items } = self;
        if count < max { Ok(()) } else { Err(E::custom(format!("{owner} has more than {max} {items}"))) }
    }
}

/// Reads a list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    limit: Limit,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List { limit, item: PhantomData })
}

/// Reads a map. `expected` names it in the error for another value.
pub(super) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    limit: Limit,
    expected: &'static str,
) -> Result<Vec<(String, T)>, D::Error> {
    deserializer.deserialize_map(Map { limit, expected, item: PhantomData })
}

/// Reads the entries of a map.
pub(super) fn entries<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    mut map: A,
    limit: Limit,
) -> Result<Vec<(String, T)>, A::Error> {
    let mut entries = Vec::new();
    while let Some(entry) = map.next_entry()? {
        limit.check(entries.len())?;
        entries.push(entry);
    }
    Ok(entries)
}

struct List<T> {
    limit: Limit,
    item: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.limit.items)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            self.limit.check(items.len())?;
            items.push(item);
        }
        Ok(items)
    }
}

struct Map<T> {
    limit: Limit,
    expected: &'static str,
    item: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
    type Value = Vec<(String, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<(String, T)>, A::Error> {
        entries(map, self.limit)
    }
}
