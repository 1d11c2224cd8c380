//! Steps of a translation, and the head that they change.

use cairn_gguf::{Metadata, Tensor, Value};

use crate::error::LoadError;

/// Metadata and tensor table of a file during its translation.
pub(super) struct Head<'a> {
    pub(super) metadata: &'a mut Metadata,
    tensors: &'a mut Vec<Tensor>,
    architecture: String,
}

/// Value of a metadata key in a table.
#[derive(Clone, Copy)]
pub(super) enum Constant {
    F32(f32),
    F32s(&'static [f32]),
    Str(&'static str),
    I32s(&'static [i32]),
    Bool(bool),
}

/// Part of a tensor's name.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The name as a whole.
    Whole,
    /// Text inside the name.
    Inside,
    /// The end of the name.
    End,
}

/// One change of a head. Keys are without the prefix of the architecture.
pub(super) enum Step {
    /// Sets the architecture, and moves all keys to its prefix.
    Family(&'static str),
    /// Copies the value of a key to another key, which is not overwritten.
    Copy(&'static str, &'static str),
    /// Sets a key that is missing.
    Inject(&'static str, Constant),
    /// Sets a key.
    Set(&'static str, Constant),
    /// Sets a key to a dimension of a tensor, if the file has it.
    SetDimension { key: &'static str, tensor: &'static str, axis: usize },
    /// Removes a key.
    Remove(&'static str),
    /// Sets the pre-tokenizer if the file names none.
    PreTokenizer(&'static str),
    /// Removes tokens without a row in the embedding table: placeholders for parts of images.
    TruncateVocabulary,
    /// Removes the last rows of the tensor that has more than the other one.
    ShareRows(&'static str, &'static str),
    /// Renames tensors: place, text, replacement.
    Rename(Place, &'static str, &'static str),
    /// Hides tensors with these prefixes.
    Skip(&'static [&'static str]),
    /// Hides tensors without one of these prefixes.
    Keep(&'static [&'static str]),
    /// Another change.
    Run(fn(&mut Head<'_>) -> Result<(), LoadError>),
}

impl Step {
    pub(super) fn apply(&self, head: &mut Head<'_>) -> Result<(), LoadError> {
        match *self {
            Self::Family(name) => head.set_family(name),
            Self::Copy(from, to) => {
                if let Some(value) = head.get(from).filter(|_| head.get(to).is_none()).cloned() {
                    head.set(to, value);
                }
            }
            Self::Inject(key, value) => {
                if head.get(key).is_none() {
                    head.set(key, value);
                }
            }
            Self::Set(key, value) => head.set(key, value),
            Self::SetDimension { key, tensor, axis } => {
                if let Some(&dim) = head.dims(tensor).and_then(|dims| dims.get(axis)) {
                    head.set(key, dim);
                }
            }
            Self::Remove(key) => head.remove(key),
            Self::PreTokenizer(name) => {
                if has_default_pre_tokenizer(head.metadata) {
                    head.set(PRE_TOKENIZER, Constant::Str(name));
                }
            }
            Self::TruncateVocabulary => head.truncate_vocabulary(),
            Self::ShareRows(first, second) => head.share_rows([first, second]),
            Self::Rename(place, from, to) => head.rename(place, from, to),
            Self::Skip(prefixes) => head.tensors.retain(|tensor| !starts_with(&tensor.name, prefixes)),
            Self::Keep(prefixes) => head.tensors.retain(|tensor| starts_with(&tensor.name, prefixes)),
            Self::Run(change) => change(head)?,
        }
        Ok(())
    }
}

pub(super) const PRE_TOKENIZER: &str = "tokenizer.ggml.pre";

/// Returns whether a file names no pre-tokenizer.
pub(super) fn has_default_pre_tokenizer(metadata: &Metadata) -> bool {
    matches!(metadata.str(PRE_TOKENIZER), Ok(None | Some("" | "default")))
}

impl<'a> Head<'a> {
    pub(super) fn new(metadata: &'a mut Metadata, tensors: &'a mut Vec<Tensor>) -> Result<Self, LoadError> {
        let architecture = metadata.required_str("general.architecture")?.to_owned();
        Ok(Self { metadata, tensors, architecture })
    }

    /// Returns a key with the prefix of the architecture. Keys of the tokenizer have none.
    pub(super) fn key(&self, key: &str) -> String {
        full_key(&self.architecture, key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(&self.key(key))
    }

    pub(super) fn u32(&self, key: &str) -> Result<Option<u32>, LoadError> {
        Ok(self.metadata.u32(&self.key(key))?)
    }

    pub(super) fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, LoadError> {
        Ok(self.metadata.i32s(&self.key(key))?)
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata.set(self.key(key), value);
    }

    /// Creates the error for an invalid value of a key.
    pub(super) fn invalid(&self, key: &str, why: impl Into<String>) -> LoadError {
        LoadError::Key { key: self.key(key), why: why.into() }
    }

    pub(super) fn dims(&self, name: &str) -> Option<&[u64]> {
        self.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.dims.as_slice())
    }

    /// Changes or removes keys without a copy of their values, which may be large.
    fn map_keys(&mut self, new_key: impl Fn(&str) -> Option<String>) {
        let entries = std::mem::take(self.metadata).into_iter();
        *self.metadata = entries.filter_map(|(key, value)| Some((new_key(&key)?, value))).collect();
    }

    fn set_family(&mut self, name: &str) {
        let (old, new) = (format!("{}.", self.architecture), format!("{name}."));
        self.map_keys(|key| {
            let moved = key.strip_prefix(&old).map(|rest| format!("{new}{rest}"));
            Some(moved.unwrap_or_else(|| key.to_owned()))
        });
        name.clone_into(&mut self.architecture);
        self.metadata.set("general.architecture", name);
    }

    fn remove(&mut self, key: &str) {
        let removed = self.key(key);
        self.map_keys(|key| (key != removed).then(|| key.to_owned()));
    }

    fn truncate_vocabulary(&mut self) {
        let Some(&rows) = self.dims("token_embd.weight").and_then(|dims| dims.get(1)) else { return };
        for list in ["tokens", "scores", "token_type"] {
            if let Some(Value::Array(array)) = self.metadata.get_mut(&format!("tokenizer.ggml.{list}")) {
                array.truncate(usize::try_from(rows).unwrap_or(usize::MAX));
            }
        }
    }

    fn share_rows(&mut self, names: [&str; 2]) {
        let rows = |name: &str| self.dims(name).and_then(|dims| dims.get(1)).copied();
        let Some(fewest) = names.into_iter().filter_map(rows).min() else { return };
        for tensor in self.tensors.iter_mut().filter(|tensor| names.contains(&tensor.name.as_str())) {
            if let [_, rows] = tensor.dims[..]
                && rows > fewest
            {
                // Rows have equally many bytes.
                tensor.bytes = tensor.bytes / rows * fewest;
                tensor.dims[1] = fewest;
            }
        }
    }

    /// Adds a tensor that is a row of a matrix, if the file has the row.
    pub(super) fn add_row(&mut self, name: &str, matrix: &str, row: u64) {
        let Some(matrix) = self.tensors.iter().find(|tensor| tensor.name == matrix).cloned() else { return };
        if let [width, rows] = matrix.dims[..]
            && row < rows
        {
            // Rows have equally many bytes.
            let bytes = matrix.bytes / rows;
            let offset = matrix.offset + row * bytes;
            self.tensors.push(Tensor { name: name.to_owned(), dims: vec![width], offset, bytes, ..matrix });
        }
    }

    /// Renames tensors.
    pub(super) fn rename(&mut self, place: Place, from: &str, to: &str) {
        for tensor in self.tensors.iter_mut() {
            let name = &tensor.name;
            let renamed = match place {
                Place::Whole => (name == from).then(|| to.to_owned()),
                Place::Inside => name.split_once(from).map(|(before, after)| format!("{before}{to}{after}")),
                Place::End => name.strip_suffix(from).map(|before| format!("{before}{to}")),
            };
            if let Some(renamed) = renamed {
                tensor.name = renamed;
            }
        }
    }
}

impl From<Constant> for Value {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::F32(number) => number.into(),
            Constant::F32s(numbers) => numbers.to_vec().into(),
            Constant::Str(text) => text.into(),
            Constant::I32s(numbers) => numbers.to_vec().into(),
            Constant::Bool(value) => value.into(),
        }
    }
}

/// Returns a key with the prefix of the architecture. Keys of the tokenizer have none.
pub(super) fn full_key(architecture: &str, key: &str) -> String {
    if key.starts_with("tokenizer.") { key.to_owned() } else { format!("{architecture}.{key}") }
}

pub(super) fn starts_with(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}
