//! Parts of the names of a decoder's tensors in a checkpoint.

use super::family::Contents;

/// Beginnings of names, each of which may be missing.
const PREFIXES: [&str; 6] = ["model.", "transformer.", "gpt_neox.", "backbone.", "ernie.", "encoder."];
/// Names of the list of layers.
const LAYERS: [&str; 2] = ["layers.", "h."];

/// Lists of matrices that are one tensor in GGUF.
const STACKS: [&str; 2] = ["altup_projections", "altup_unembed_projections"];

/// Parsed name of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorName {
    /// Number of the layer; none outside of layers.
    pub(super) layer: Option<u32>,
    /// Name without prefix and ending. `*` is the number of an expert, or of another matrix of a list.
    pub(super) stem: String,
    /// "weight" or "bias".
    pub(super) ending: &'static str,
    pub(super) contents: Contents,
    /// That number.
    pub(super) expert: Option<u32>,
}

impl TensorName {
    /// Parses a name. Returns `None` if a layer has no number.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let name = name.replace("language_model.", "");
        let inner = PREFIXES.iter().fold(name.as_str(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
        let layer = LAYERS.iter().find_map(|layers| inner.strip_prefix(layers));
        let (layer, part) = match layer.and_then(|rest| rest.split_once('.')) {
            Some((layer, part)) => (Some(layer.parse().ok()?), part),
            None => (None, inner),
        };
        let (stem, ending, contents) = ending(part);
        let (stem, expert) = expert(stem);
        Some(Self { layer, stem, ending, contents, expert })
    }

    /// Returns the beginning of the name in GGUF.
    pub(super) fn prefix(&self) -> String {
        self.layer.map_or_else(String::new, |layer| format!("blk.{layer}."))
    }
}

/// Splits the ending of a tensor's name.
fn ending(name: &str) -> (&str, &'static str, Contents) {
    for (suffix, ending, contents) in [
        (".weight", "weight", Contents::Numbers),
        (".bias", "bias", Contents::Numbers),
        ("_bias", "bias", Contents::Numbers),
        ("_blocks", "weight", Contents::Blocks),
        ("_scales", "weight", Contents::BlockScales),
    ] {
        if let Some(stem) = name.strip_suffix(suffix) {
            return (stem, ending, contents);
        }
    }
    (name, "weight", Contents::Numbers)
}

/// Replaces the number of an expert, or of another matrix of a list, by `*`.
fn expert(stem: &str) -> (String, Option<u32>) {
    const EXPERTS: &str = ".experts.";
    let found = stem.split_once(EXPERTS).and_then(|(before, rest)| {
        let (number, part) = rest.split_once('.')?;
        Some((format!("{before}{EXPERTS}*.{part}"), number.parse().ok()?))
    });
    let stacked = || {
        let (list, number) = stem.rsplit_once('.')?;
        Some((format!("{list}.*"), number.parse().ok().filter(|_: &u32| STACKS.contains(&list))?))
    };
    match found.or_else(stacked) {
        Some((stem, number)) => (stem, Some(number)),
        None => (stem.to_owned(), None),
    }
}
