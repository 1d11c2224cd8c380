//! Many texts in one piece of memory.
//!
//! A vocabulary is a list of up to 260,000 short texts, and its merges are twice as many. A `String` each would add about fifty
//! bytes. Here the overhead is four bytes, less than the length before each text in a file, so a list never takes more
//! memory than its part of the file.

use std::fmt;

/// A list of texts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    /// All texts, without a gap.
    text: String,
    /// Where each ends in `text`; it begins where the one before ends.
    ends: Vec<u32>,
}

impl Strings {
    /// No texts.
    pub const fn new() -> Strings {
        Strings { text: String::new(), ends: Vec::new() }
    }

    /// No texts yet, with room for `count` of `bytes` together.
    pub fn with_capacity(count: usize, bytes: usize) -> Strings {
        Strings { text: String::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Adds a text at the end.
    ///
    /// # Panics
    /// When all texts together have 4 GiB or more.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).expect("a list of texts has less than 4 GiB"));
    }

    /// Keeps the first `count` texts.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at this index.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0) as usize;
        self.text.get(start..end)
    }

    /// All texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = self.text.get(start..end as usize);
            start = end as usize;
            text.expect("ends ascend, and each is the end of a text")
        })
    }

    /// The texts one by one.
    pub fn to_vec(&self) -> Vec<String> {
        self.iter().map(str::to_owned).collect()
    }
}

impl Default for &Strings {
    fn default() -> Self {
        static NONE: Strings = Strings::new();
        &NONE
    }
}

impl<T: AsRef<str>> FromIterator<T> for Strings {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Strings {
        let mut strings = Strings::new();
        texts.into_iter().for_each(|text| strings.push(text.as_ref()));
        strings
    }
}

impl From<Vec<String>> for Strings {
    fn from(texts: Vec<String>) -> Strings {
        texts.iter().collect()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_return_the_pushed_texts(texts in proptest::collection::vec(".{0,5}", 0..20)) {
            let strings = Strings::from(texts.clone());
            prop_assert_eq!(strings.len(), texts.len());
            prop_assert_eq!(strings.is_empty(), texts.is_empty());
            prop_assert_eq!(strings.to_vec(), texts.clone());
            prop_assert_eq!(strings.iter().len(), texts.len());
            for (index, text) in texts.iter().enumerate() {
                prop_assert_eq!(strings.get(index), Some(text.as_str()));
            }
            prop_assert_eq!(strings.get(texts.len()), None);
            prop_assert_eq!(format!("{strings:?}"), format!("{texts:?}"));
            for count in [0, 1, texts.len() / 2, texts.len() + 1] {
                let mut first = strings.clone();
                first.truncate(count);
                prop_assert_eq!(first.to_vec(), texts.iter().take(count).cloned().collect::<Vec<_>>());
            }
        }
    }
}
