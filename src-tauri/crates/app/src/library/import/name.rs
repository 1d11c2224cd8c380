//! Default name of an imported model: the name in the file's metadata, or else the file name.

use std::path::Path;

use cairn_gguf::Gguf;
use cairn_store::ModelRef;

/// Most bytes of a name's part.
const MAX_PART_BYTES: usize = 80;

/// Returns the default name of a file's model.
pub(crate) fn of_file(gguf: &Gguf, path: &Path) -> ModelRef {
    let own = gguf.metadata().str("general.name").ok().flatten().and_then(spelled);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = own.or_else(|| spelled(without_part(&stem))).unwrap_or_else(|| "model".to_owned());
    name.parse().expect("every character was chosen to be allowed")
}

/// Converts a text to a model name: lower case, with a dash for each invalid character. Returns `None` if fewer than
/// two letters or digits are left.
fn spelled(text: &str) -> Option<String> {
    let mut name = String::new();
    for letter in text.trim().chars() {
        match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_') => name.push(letter),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches(['-', '.']);
    let name = name.get(..MAX_PART_BYTES).unwrap_or(name).trim_end_matches(['-', '.']);
    let letters = name.chars().filter(char::is_ascii_alphanumeric).count();
    (letters >= 2).then(|| name.to_owned())
}

/// Removes the part number of a split file's name: `-00001-of-00003`.
fn without_part(stem: &str) -> &str {
    let number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    match stem.rsplit_once("-of-").and_then(|(before, count)| Some((before.rsplit_once('-')?, count))) {
        Some(((name, part), count)) if number(part) && number(count) => name,
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_comes_from_metadata_or_file_name() {
        let check = |own: Option<&str>, path: &str, expected: &str| {
            let mut writer = cairn_gguf::Writer::new(32);
            writer.set("general.architecture", "llama");
            if let Some(own) = own {
                writer.set("general.name", own);
            }
            let gguf = Gguf::parse(&writer.finish()).unwrap();
            assert_eq!(of_file(&gguf, Path::new(path)).to_string(), expected, "{own:?} in {path}");
        };
        check(Some("Qwen3 0.6B Instruct"), "x.gguf", "qwen3-0.6b-instruct:latest");
        check(Some("  Meta  Llama / 3.1 (8B) "), "x.gguf", "meta-llama-3.1-8b:latest");
        check(None, "/m/My Model_v1.Q4_K_M.gguf", "my-model_v1.q4_k_m:latest");
        check(None, "big-00001-of-00003.gguf", "big:latest");
        check(None, "art-of-war.gguf", "art-of-war:latest");
        check(Some("."), "a.b.gguf", "a.b:latest");
        check(Some("模型"), "模型.gguf", "model:latest");
        check(Some("../../etc/passwd"), "x.gguf", "etc-passwd:latest");
        check(Some(&"long ".repeat(40)), "x.gguf", &format!("{}:latest", "long-".repeat(16).trim_end_matches('-')));
    }
}
