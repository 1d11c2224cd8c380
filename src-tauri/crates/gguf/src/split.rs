//! Models in several files: `name-00001-of-00003.gguf` and so on.
//!
//! Each part is a whole GGUF file with a head of its own, whose keys `split.no` (from 0), `split.count` and
//! `split.tensors.count` (of all parts together) identify the part. The first one has the model's metadata; the tensors of
//! all, in the order of the parts, are the model's. This is how llama.cpp's `gguf-split` writes them.
//!
//! **Invariant:** the result of [`join`] has each tensor once, and [`Tensor::part`](crate::Tensor::part) is the index of its file.

use std::collections::HashMap;
use std::fmt;

use crate::error::Error;
use crate::reader::Gguf;

/// The most parts of a model; published ones have some 200.
pub const MAX_PARTS: u32 = 512;

/// Which part of a model a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Number of the part, from 0.
    pub number: u32,
    /// How many parts there are, at least two.
    pub count: u32,
    /// Number of tensors in all parts, if the file has the key.
    pub tensors: Option<u64>,
}

/// Why files are not the parts of one model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// No files at all.
    #[error("a model has at least one file")]
    NoParts,
    /// A key has a wrong type or is missing.
    #[error("`{file}`: {source}")]
    Key {
        /// The part.
        file: String,
        /// The metadata error.
        source: Error,
    },
    /// A number that no part can have.
    #[error(
        "`{file}`: metadata key `split.no` is {number} and `split.count` {count}; at most {MAX_PARTS} parts are read"
    )]
    Number {
        /// The part.
        file: String,
        /// `split.no`.
        number: u32,
        /// `split.count`.
        count: u32,
    },
    /// A name from which those of the other parts cannot be derived.
    #[error("`{file}` is part {} of {} of a model, and must be named like `model-{:05}-of-{:05}.gguf` for the others to be \
             found", .split.number + 1, .split.count, .split.number + 1, .split.count)]
    Name {
        /// The part.
        file: String,
        /// Values of the metadata keys `split.*` in the part.
        split: Split,
    },
    /// Some files of the model are missing.
    #[error("this model has {count} files, of which are missing: {}", .missing.join(", "))]
    Missing {
        /// How many files the model has.
        count: u32,
        /// File names of the missing parts.
        missing: Vec<String>,
    },
    /// A file that is a whole model.
    #[error("`{file}` is not a part of a split model: it has no metadata key `split.count`")]
    NotAPart {
        /// The file.
        file: String,
    },
    /// A part at the wrong position, or twice.
    #[error("`{file}` is part {have} by its metadata key `split.no`, where part {need} belongs")]
    Order {
        /// The part.
        file: String,
        /// Number of the part in its metadata, from 1.
        have: u32,
        /// Expected number of the part, from 1.
        need: u32,
    },
    /// The metadata of two parts disagree about the whole model.
    #[error("`{file}` belongs to another model than `{first}`: metadata key `{key}` is {have}, not {need}")]
    OtherModel {
        /// The part.
        file: String,
        /// The first part.
        first: String,
        /// The key.
        key: &'static str,
        /// Value of the key in this part.
        have: String,
        /// Value of the key in the first part.
        need: String,
    },
    /// Parts that lack tensors, or have too many.
    #[error("the parts hold {have} tensors together, and metadata key `split.tensors.count` is {need}")]
    Tensors {
        /// Tensors in all parts.
        have: u64,
        /// Tensors that the metadata key `split.tensors.count` states.
        need: u64,
    },
    /// A tensor in two parts.
    #[error("tensor `{}` is in `{first}` and in `{file}`", .name.escape_debug())]
    Repeated {
        /// The tensor.
        name: String,
        /// The part that has it first.
        first: String,
        /// The part that has it again.
        file: String,
    },
}

/// The name of a part: `{stem}-{number}-of-{count}.gguf`, numbers of five digits or more, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartName {
    stem: String,
    number: u32,
    count: u32,
}

impl PartName {
    /// Reads a file's name.
    pub fn parse(file: &str) -> Option<PartName> {
        let (rest, count) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| text.len() >= 5 && text.bytes().all(|letter| letter.is_ascii_digit());
        let named = PartName { stem: stem.to_owned(), number: number.parse().ok()?, count: count.parse().ok()? };
        (digits(number) && digits(count) && (1..=named.count).contains(&named.number)).then_some(named)
    }

    /// The names of all parts, in order.
    pub fn all(&self) -> impl Iterator<Item = PartName> {
        (1..=self.count).map(|number| PartName { number, ..self.clone() })
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:05}-of-{:05}.gguf", self.stem, self.number, self.count)
    }
}

impl Split {
    /// Reads the split metadata of a file. Returns `None` if the model is a single file. `file` is the file's name, for
    /// errors.
    ///
    /// # Errors
    /// If a key has the wrong type, or the part number or the number of parts is out of range.
    pub fn of(file: &str, gguf: &Gguf) -> Result<Option<Split>, SplitError> {
        let metadata = gguf.metadata();
        let failed = |source| SplitError::Key { file: file.to_owned(), source };
        let Some(count @ 2..) = metadata.u32("split.count").map_err(failed)? else { return Ok(None) };
        let number = metadata.required_u32("split.no").map_err(failed)?;
        let tensors = metadata.u64("split.tensors.count").map_err(failed)?;
        if number >= count || count > MAX_PARTS {
            return Err(SplitError::Number { file: file.to_owned(), number, count });
        }
        Ok(Some(Split { number, count, tensors }))
    }

    /// Derives the names of all parts from the name of this one. `exists` checks whether the folder has a file of that name.
    ///
    /// # Errors
    /// If the name does not have the form of a part's name, if it contradicts the keys, or if files are missing.
    pub fn names(&self, file: &str, exists: impl Fn(&str) -> bool) -> Result<Vec<String>, SplitError> {
        let named = PartName::parse(file);
        let fits = named.filter(|named| named.number == self.number + 1 && named.count == self.count);
        let named = fits.ok_or_else(|| SplitError::Name { file: file.to_owned(), split: *self })?;
        let names: Vec<String> = named.all().map(|name| name.to_string()).collect();
        let missing: Vec<String> = names.iter().filter(|name| !exists(name)).cloned().collect();
        if missing.is_empty() { Ok(names) } else { Err(SplitError::Missing { count: self.count, missing }) }
    }
}

/// Joins all parts of a model to one model. `parts` has each part with its file name, in order.
///
/// # Errors
/// If the files are not all parts of one model, each once and in order.
pub fn join(parts: Vec<(String, Gguf)>) -> Result<Gguf, SplitError> {
    let mut parts = parts.into_iter().zip(0..);
    let Some(((first, mut whole), _)) = parts.next() else { return Err(SplitError::NoParts) };
    let split = position(&first, &whole, 0)?;
    let mut files = vec![first];
    let mut part_of: HashMap<String, usize> = HashMap::new();
    part_of.extend(whole.tensors().iter().map(|tensor| (tensor.name.clone(), 0)));
    for ((file, gguf), number) in parts {
        let here = position(&file, &gguf, number)?;
        let first = files.first().cloned().unwrap_or_default();
        let other = |key, have: String, need: String| {
            Err(SplitError::OtherModel { file: file.clone(), first: first.clone(), key, have, need })
        };
        if here.count != split.count {
            return other("split.count", here.count.to_string(), split.count.to_string());
        }
        if here.tensors != split.tensors {
            let text = |tensors: Option<u64>| tensors.map_or("missing".to_owned(), |tensors| tensors.to_string());
            return other("split.tensors.count", text(here.tensors), text(split.tensors));
        }
        let key = "general.architecture";
        if let (Ok(Some(have)), Ok(Some(need))) = (gguf.metadata().str(key), whole.metadata().str(key))
            && have != need
        {
            return other(key, format!("\"{}\"", have.escape_debug()), format!("\"{}\"", need.escape_debug()));
        }
        for mut tensor in gguf.into_tensors() {
            if let Some(earlier) = part_of.insert(tensor.name.clone(), files.len()) {
                let first = files.get(earlier).cloned().unwrap_or_default();
                return Err(SplitError::Repeated { name: tensor.name, first, file });
            }
            tensor.part = files.len();
            whole.add(tensor);
        }
        files.push(file);
    }
    let have = whole.tensors().len() as u64;
    match split.tensors {
        Some(need) if need != have => Err(SplitError::Tensors { have, need }),
        _ => Ok(whole),
    }
}

/// Reads a part's keys. It is an error if the part's number is not `number`.
fn position(file: &str, gguf: &Gguf, number: u32) -> Result<Split, SplitError> {
    let split = Split::of(file, gguf)?.ok_or_else(|| SplitError::NotAPart { file: file.to_owned() })?;
    if split.number == number {
        return Ok(split);
    }
    Err(SplitError::Order { file: file.to_owned(), have: split.number + 1, need: number + 1 })
}

#[cfg(test)]
mod tests;
