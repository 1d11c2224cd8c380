//! Roles of special tokens, the tokens that are added to a text, and the chat template.
//!
//! Sources, in their order: `tokenizer_config.json` with the names of tokens, `config.json` with ids. The post-processor of
//! `tokenizer.json` determines which tokens are added to a text. An id counts only if no name gives the token.

use cairn_gguf::Metadata;
use serde::Deserialize;
use serde_json::Value;

use super::config::{CONFIG, Config, excerpt};
use super::description::{Description, TOKENIZER_CONFIG};
use super::error::{ConvertError, invalid};
use super::tokenizer::{ChatTemplate, Few, PostProcessor, TemplatePart, TokenName, TokenizerConfig};

/// Roles in `tokenizer_config.json`, and in GGUF.
const ROLES: [(&str, &str); 8] = [
    ("bos", "bos"),
    ("eos", "eos"),
    ("unk", "unknown"),
    ("sep", "seperator"),
    ("pad", "padding"),
    ("cls", "cls"),
    ("mask", "mask"),
    ("eot", "eot"),
];

/// The special tokens of a checkpoint, by role.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    of: [Option<String>; ROLES.len()],
    add_bos: Option<bool>,
    add_eos: Option<bool>,
}

impl Names {
    fn read(config: &TokenizerConfig, post_processor: Option<&PostProcessor>) -> Self {
        let text = |name: &Option<TokenName>| name.as_ref().and_then(TokenName::text).map(str::to_owned);
        let of = [
            text(&config.bos_token),
            text(&config.eos_token),
            text(&config.unk_token),
            text(&config.sep_token),
            text(&config.pad_token),
            text(&config.cls_token),
            text(&config.mask_token),
            None,
        ];
        let mut names = Self { of, add_bos: None, add_eos: None };
        if let Some(post_processor) = post_processor {
            names.post_process(post_processor);
        }
        names.add_bos = names.add_bos.or(config.add_bos_token);
        names.add_eos = names.add_eos.or(config.add_eos_token);
        names
    }

    fn post_process(&mut self, post_processor: &PostProcessor) {
        let alone = [(post_processor.kind.as_deref(), post_processor.single.as_ref())];
        let steps = post_processor.processors.iter().flat_map(|steps| &steps.0);
        for (kind, single) in alone.into_iter().chain(steps.map(|step| (step.kind.as_deref(), step.single.as_ref()))) {
            match kind {
                Some("ByteLevel") => {
                    self.add_bos.get_or_insert(false);
                    self.add_eos.get_or_insert(false);
                }
                Some("TemplateProcessing") => self.template(single.map_or(&[], |Few(parts)| parts)),
                _ => {}
            }
        }
    }

    /// Reads the tokens around a text.
    fn template(&mut self, parts: &[TemplatePart]) {
        let id = |part: &TemplatePart| part.token.as_ref().map(|token| token.id.clone());
        let [first, .., last] = parts else { return };
        let [bos, eos, _, _, _, cls, _, eot] = &mut self.of;
        if let Some(first) = id(first) {
            let bos = bos.get_or_insert_with(|| first.clone());
            self.add_bos = Some(*bos == first || cls.as_ref() == Some(&first));
        }
        if let Some(last) = id(last) {
            // The token that ends a text may differ from the one that ends a turn.
            if let Some(turn) = eos.replace(last.clone()).filter(|turn| *turn != last) {
                eot.get_or_insert(turn);
            }
            self.add_eos = Some(true);
        }
    }
}

/// Adds the roles, flags and the chat template. `tokens` are the texts by id.
pub(super) fn add(
    description: &Description<'_>,
    config: &TokenizerConfig,
    post_processor: Option<&PostProcessor>,
    tokens: &[String],
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    check_names(description, config, tokens)?;
    let names = Names::read(config, post_processor);
    for ((role, key), name) in ROLES.iter().zip(&names.of) {
        let named = name.as_ref().and_then(|name| tokens.iter().position(|token| token == name));
        let id = match named {
            Some(id) => Some(id as u32),
            None => declared(&description.config, role, tokens.len())?,
        };
        if let Some(id) = id {
            metadata.set(format!("tokenizer.ggml.{key}_token_id"), id);
        }
    }
    for (key, flag) in [("add_bos_token", names.add_bos), ("add_eos_token", names.add_eos)] {
        if let Some(flag) = flag {
            metadata.set(format!("tokenizer.ggml.{key}"), flag);
        }
    }
    if let Some(template) = chat_template(description, config)? {
        metadata.set("tokenizer.chat_template", template);
    }
    Ok(())
}

/// Checks that the tokens that begin and end a text are in the vocabulary, or that the config has ids of them.
fn check_names(description: &Description<'_>, config: &TokenizerConfig, tokens: &[String]) -> Result<(), ConvertError> {
    for (role, name) in [("bos", &config.bos_token), ("eos", &config.eos_token)] {
        let name = name.as_ref().and_then(TokenName::text);
        let Some(name) = name.filter(|name| tokens.iter().all(|token| token != *name)) else { continue };
        if declared(&description.config, role, tokens.len())?.is_none() {
            let reason =
                format!("the {role}_token {name:?} is not in the vocabulary, and {CONFIG} has no {role}_token_id");
            return Err(invalid(TOKENIZER_CONFIG, reason));
        }
    }
    Ok(())
}

/// Returns the id of a role in the config; -1 and an empty list are none. Some models have several ends; the first one is
/// the most general.
fn declared(config: &Config, role: &str, tokens: usize) -> Result<Option<u32>, ConvertError> {
    let key = format!("{role}_token_id");
    let value = config.value(&key);
    let ids = match value {
        Value::Null => return Ok(None),
        Value::Array(ids) => ids.as_slice(),
        one if *one == -1 => return Ok(None),
        one => std::slice::from_ref(one),
    };
    let id = |value: &Value| value.as_u64().filter(|&id| id < tokens as u64).map(|id| id as u32);
    let ids = ids.iter().map(id).collect::<Option<Vec<u32>>>();
    let last = tokens.saturating_sub(1);
    let ids =
        ids.ok_or_else(|| invalid(CONFIG, format!("{key} is {}, not one of the ids 0 to {last}", excerpt(value))))?;
    Ok(ids.first().copied())
}

/// Returns the chat template: that of `tokenizer_config.json`, else a file.
fn chat_template(description: &Description<'_>, config: &TokenizerConfig) -> Result<Option<String>, ConvertError> {
    #[derive(Deserialize)]
    struct File {
        chat_template: String,
    }
    match &config.chat_template {
        Some(ChatTemplate::One(template)) => return Ok(Some(template.clone())),
        Some(ChatTemplate::Several(templates)) => {
            let default = templates.iter().find(|template| template.name == "default");
            let default = default.ok_or_else(|| invalid(TOKENIZER_CONFIG, "no chat_template has the name default"))?;
            return Ok(Some(default.template.clone()));
        }
        None => {}
    }
    if let Some(template) = description.text("chat_template.jinja")? {
        return Ok(Some(template));
    }
    Ok(description.parsed::<File>("chat_template.json")?.map(|file| file.chat_template))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(config: Value, post_processor: Value, roles: [Option<&str>; 3], flags: [Option<bool>; 2]) {
        let config = serde_json::from_value(config).expect("a valid config");
        let post_processor: Option<PostProcessor> = serde_json::from_value(post_processor).expect("a valid processor");
        let Names { of: [bos, eos, .., eot], add_bos, add_eos } = Names::read(&config, post_processor.as_ref());
        assert_eq!([bos.as_deref(), eos.as_deref(), eot.as_deref()], roles, "bos, eos, eot");
        assert_eq!([add_bos, add_eos], flags, "whether bos and eos are added");
    }

    fn around(first: Option<&str>, last: Option<&str>) -> Value {
        let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let parts: Vec<Value> = first.map(token).into_iter().chain([text]).chain(last.map(token)).collect();
        json!({"type": "TemplateProcessing", "single": parts})
    }

    #[test]
    fn tokens_around_a_text_follow_the_post_processor() {
        let names = json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": false});
        let roles = [Some("<s>"), Some("</s>"), None];
        check(names.clone(), json!(null), roles, [Some(false), None]);
        check(names.clone(), around(Some("<s>"), None), roles, [Some(true), None]);
        check(names.clone(), around(Some("<x>"), Some("</s>")), roles, [Some(false), Some(true)]);
        check(names.clone(), json!({"type": "ByteLevel"}), roles, [Some(false), Some(false)]);
        let both = json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, around(Some("<s>"), None)]});
        check(names.clone(), both, roles, [Some(true), Some(false)]);
        check(
            names,
            around(None, Some("<end>")),
            [Some("<s>"), Some("<end>"), Some("</s>")],
            [Some(false), Some(true)],
        );
        check(json!({"bos_token": null}), around(Some("<s>"), None), [Some("<s>"), None, None], [Some(true), None]);
    }
}
