//! Work of one token: the weights that an answer reads for it, and the operations that a prompt needs.

use cairn_gguf::{DType, Gguf};
use cairn_registry::Variant;

/// Work of one token of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenWork {
    /// Work by type of weights.
    pub(super) types: Vec<TypeWork>,
}

/// Work with the weights of one type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TypeWork {
    pub(super) dtype: DType,
    /// Bytes of weights that a token of an answer reads.
    pub(super) decode_bytes: f64,
    /// Operations of a token of a prompt.
    pub(super) prefill_operations: f64,
}

/// A row of these is looked up, not multiplied.
const LOOKUPS: [&str; 4] =
    ["token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"];
/// Tensors of vision towers, which compute pictures only.
const TOWERS: [&str; 4] = ["v.", "mm.", "a.", "s."];

impl TokenWork {
    /// The work of a model by its file's head, as the engine reads it. `None` for a file without matrices.
    pub(crate) fn of_gguf(gguf: &Gguf) -> Option<Self> {
        let has = |name: &str| gguf.tensors().iter().any(|tensor| tensor.name == name);
        let is_tied = !has("output.weight");
        let experts = expert_share(gguf);
        let mut types: Vec<TypeWork> = Vec::new();
        for tensor in gguf.tensors() {
            let name = tensor.name.as_str();
            let is_vector = tensor.dims.iter().filter(|dim| **dim > 1).count() < 2;
            let is_output = name == "output.weight" || (is_tied && name == "token_embd.weight");
            let is_lookup = LOOKUPS.contains(&name) && !is_output;
            if is_vector || is_lookup || !tensor.dtype.is_weight() || TOWERS.iter().any(|tower| name.starts_with(tower))
            {
                continue;
            }
            let share = if name.contains("_exps.") { experts } else { 1.0 };
            // Only the last token of a prompt has an output.
            let operations = if is_output { 0.0 } else { 2.0 * tensor.elements() as f64 * share };
            add(&mut types, tensor.dtype, tensor.bytes as f64 * share, operations);
        }
        (!types.is_empty()).then_some(Self { types })
    }

    /// The work of a variant that is not on this machine, by its size, quantisation and parameters. `None` if the
    /// quantisation is unknown, or if only some of the experts of a model compute and their share is unknown.
    pub(crate) fn of_variant(variant: &Variant) -> Option<Self> {
        let dtype = dtype_of(variant.quantization.as_deref()?)?;
        let bytes = variant.size_bytes as f64;
        // Without a number of parameters, it follows from the size.
        let by_size = bytes * dtype.block() as f64 / dtype.block_bytes() as f64;
        let all = variant.parameters.as_deref().and_then(count).unwrap_or(by_size);
        let active = match (&variant.active_parameters, active_in(&variant.name)) {
            (Some(active), _) => count(active)?,
            (None, Some(active)) => active,
            (None, None) if has_experts(variant) => return None,
            (None, None) => all,
        };
        let is_sound = bytes > 0.0 && all > 0.0 && active > 0.0;
        let share = (active / all).min(1.0);
        let work = TypeWork { dtype, decode_bytes: bytes * share, prefill_operations: 2.0 * active.min(all) };
        is_sound.then(|| Self { types: vec![work] })
    }
}

fn add(types: &mut Vec<TypeWork>, dtype: DType, decode_bytes: f64, prefill_operations: f64) {
    match types.iter_mut().find(|work| work.dtype == dtype) {
        Some(work) => {
            work.decode_bytes += decode_bytes;
            work.prefill_operations += prefill_operations;
        }
        None => types.push(TypeWork { dtype, decode_bytes, prefill_operations }),
    }
}

/// The share of a model's experts that compute a token.
fn expert_share(gguf: &Gguf) -> f64 {
    let metadata = gguf.metadata();
    let family = metadata.str("general.architecture").ok().flatten().unwrap_or_default();
    let number = |key: &str| metadata.u64(&format!("{family}.{key}")).ok().flatten();
    match (number("expert_used_count"), number("expert_count")) {
        (Some(used), Some(all)) if all > 0 => (used as f64 / all as f64).min(1.0),
        _ => 1.0,
    }
}

/// The type of most weights of a quantisation: `Q4_K_M` is mostly Q4_K.
fn dtype_of(quantization: &str) -> Option<DType> {
    let name = quantization.to_ascii_lowercase();
    let find = |name: &str| DType::all().find(|dtype| dtype.is_weight() && dtype.name().eq_ignore_ascii_case(name));
    let mut name = name.trim_start_matches("ud-");
    loop {
        if let Some(dtype) = find(name) {
            return Some(dtype);
        }
        // Mixes end with their size: `_S`, `_M`, `_XL`. The 3-bit mix IQ3_M has the type IQ3_S.
        match name.rsplit_once('_') {
            Some((base @ ("iq3" | "iq2"), "m")) => return find(&format!("{base}_s")),
            Some((base, _)) => name = base,
            None => return None,
        }
    }
}

/// Reads a number of parameters: `8.2B`, `494M`.
fn count(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| letter.is_ascii_alphabetic())?);
    let factor = match unit {
        "K" | "k" => 1e3,
        "M" | "m" => 1e6,
        "B" | "b" => 1e9,
        "T" | "t" => 1e12,
        _ => return None,
    };
    number.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0).map(|number| number * factor)
}

/// Active parameters that a name states: `Qwen3-30B-A3B`.
fn active_in(name: &str) -> Option<f64> {
    let words = name.split(['-', '_', '/', ':']);
    let active = words.filter_map(|word| word.strip_prefix(['A', 'a'])).filter(|rest| rest.ends_with(['B', 'b']));
    active.filter_map(count).next()
}

/// Whether a model has experts, by its architecture or by a name such as `8x7B`.
fn has_experts(variant: &Variant) -> bool {
    let has_count = |word: &str| {
        let parts = word.split_once('x');
        parts.is_some_and(|(experts, each)| experts.parse::<u32>().is_ok() && count(each).is_some())
    };
    let architecture = variant.architecture.as_deref().unwrap_or_default().to_ascii_lowercase();
    let name = variant.name.to_ascii_lowercase();
    let is_named = ["moe", "gpt-oss", "gptoss", "deepseek2"].iter().any(|part| architecture.contains(part));
    is_named || name.contains("moe") || name.split(['-', '_', '/', ':']).any(has_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_testkit::{ModelSpec, Types, tiny_llama, tiny_qwen3};

    fn work(spec: &ModelSpec) -> TokenWork {
        let file = cairn_testkit::write(spec);
        TokenWork::of_gguf(&Gguf::parse(&file).expect("the file is sound")).expect("the file has matrices")
    }

    fn variant(name: &str, quantization: &str, parameters: Option<&str>, active: Option<&str>) -> Variant {
        Variant {
            name: name.to_owned(),
            parameters: parameters.map(str::to_owned),
            active_parameters: active.map(str::to_owned),
            quantization: Some(quantization.to_owned()),
            architecture: None,
            size_bytes: 4_500_000_000,
            is_approximate: true,
        }
    }

    #[test]
    fn answer_reads_all_matrices_but_the_embedding() {
        let spec = ModelSpec { types: Types::All(DType::Q8_0), ..tiny_llama() };
        // By layer: queries and their output, keys and values, three of the feed-forward part.
        let layer = 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512;
        let (layers, output) = (f64::from(2 * layer), f64::from(512 * 256));
        let found = work(&spec).types;
        assert_eq!(found.len(), 1, "one type: {found:?}");
        assert_eq!(found[0].prefill_operations, 2.0 * layers, "the output is computed for the last token only");
        assert_eq!(found[0].decode_bytes, (layers + output) * 34.0 / 32.0, "all layers and the output");
        let tied = ModelSpec { tied: true, ..spec };
        assert_eq!(work(&tied).types, found, "a tied embedding is read as the output");
    }

    #[test]
    fn token_reads_only_its_experts() {
        let family =
            cairn_testkit::families::ALL.iter().copied().find(|family| family.name == "qwen3moe").expect("a family");
        let spec = ModelSpec { family, types: Types::All(DType::Q8_0), ..tiny_qwen3() };
        let file = cairn_testkit::write(&spec);
        let gguf = Gguf::parse(&file).expect("the file is sound");
        let share = expert_share(&gguf);
        assert!(share < 1.0, "only some of the experts compute: {share}");
        let bytes = |is_expert: bool| -> f64 {
            let of = gguf.tensors().iter().filter(|tensor| tensor.dims.len() > 1 && tensor.dtype == DType::Q8_0);
            of.filter(|tensor| tensor.name.contains("_exps.") == is_expert).map(|tensor| tensor.bytes as f64).sum()
        };
        let found = TokenWork::of_gguf(&gguf).expect("the file has matrices");
        let q8 = found.types.iter().find(|work| work.dtype == DType::Q8_0).expect("most weights have the type");
        let output = gguf.tensors().iter().find(|tensor| tensor.name == "output.weight");
        let embedding = gguf.tensors().iter().find(|tensor| tensor.name == "token_embd.weight").expect("it has one");
        let lookup = output.map_or(0.0, |_| embedding.bytes as f64);
        assert_eq!(q8.decode_bytes, bytes(false) - lookup + share * bytes(true), "a share of the experts");
    }

    #[test]
    fn work_of_a_variant_follows_from_its_size() {
        let check = |variant: &Variant, expected: Option<(DType, f64, f64)>| {
            let found = TokenWork::of_variant(variant).map(|work| {
                let TypeWork { dtype, decode_bytes, prefill_operations } = work.types[0];
                (dtype, (decode_bytes / 1e8).round() / 10.0, (prefill_operations / 1e8).round() / 10.0)
            });
            assert_eq!(found, expected, "{variant:?}");
        };
        check(&variant("m:8b", "Q4_K_M", Some("8.0B"), None), Some((DType::Q4_K, 4.5, 16.0)));
        check(&variant("m:8b", "Q4_K_M", None, None), Some((DType::Q4_K, 4.5, 16.0)));
        check(&variant("m:30b", "Q4_K_M", Some("30.0B"), Some("3.0B")), Some((DType::Q4_K, 0.5, 6.0)));
        check(&variant("hf.co/u/M-30B-A3B-GGUF:Q4_0", "Q4_0", Some("30B"), None), Some((DType::Q4_0, 0.5, 6.0)));
        check(&variant("hf.co/u/M-8x7B-GGUF:Q4_0", "Q4_0", Some("46.7B"), None), None);
        check(&variant("m:8b", "", Some("8.0B"), None), None);
        check(&variant("m:8b", "Q4_K_M", Some("many"), None), Some((DType::Q4_K, 4.5, 16.0)));
        check(&variant("m:8b", "Q4_K_M", Some("8.0B"), Some("none")), None);
    }

    #[test]
    fn quantisation_names_its_main_type() {
        let check = |name: &str, dtype: Option<DType>| assert_eq!(dtype_of(name), dtype, "{name}");
        check("Q4_K_M", Some(DType::Q4_K));
        check("UD-Q4_K_XL", Some(DType::Q4_K));
        check("q8_0", Some(DType::Q8_0));
        check("IQ3_M", Some(DType::IQ3_S));
        check("IQ4_NL", Some(DType::IQ4_NL));
        check("BF16", Some(DType::BF16));
        check("MXFP4", Some(DType::MXFP4));
        check("unknown", None);
        check("", None);
    }
}
