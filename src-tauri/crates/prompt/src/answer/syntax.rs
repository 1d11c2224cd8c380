//! The tool-call syntaxes, and how a template or a parser's name reveals one.

use std::borrow::Cow;

use super::layout::Tag;
use super::{deepseek, gemma, generic, glm, harmony, hermes, llama, mistral, python, xml};

/// How a model writes tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Syntax {
    /// JSON in `<tool_call>`: Hermes, Qwen 2.5 and 3.
    Hermes,
    /// `<function=NAME>` with `<parameter=KEY>`: Qwen3-Coder, Qwen 3.5, Nemotron, Seed-OSS.
    Xml,
    /// JSON without tags: Llama 3.
    Llama,
    /// `[TOOL_CALLS]`: Mistral.
    Mistral,
    /// Messages with channels: gpt-oss.
    Harmony,
    /// `<|tool_call>call:NAME{…}`: Gemma 4.
    Gemma4,
    /// `<start_function_call>call:NAME{…}`: FunctionGemma.
    FunctionGemma,
    /// `<｜tool▁call▁begin｜>`: DeepSeek.
    DeepSeek,
    /// `<|tool_call_begin|>`: Kimi K2.
    Kimi,
    /// `<arg_key>` and `<arg_value>`: GLM.
    Glm,
    /// JSON after `<|tool_call|>`: Granite, Phi-4-mini.
    Pipes,
    /// `<|tool_call_start|>[f(x=1)]`: LFM2.
    Lfm2,
    /// `<function_calls>f(x=1)`: Olmo 3.
    Olmo3,
    /// `<|START_ACTION|>`: Cohere's Command.
    Cohere,
    /// The name of a tool and JSON after this tag.
    After(String),
}

impl Syntax {
    /// Detects the syntax by texts in the source of a template.
    pub(super) fn in_source(source: &str) -> Option<Syntax> {
        // The order matters: a template with a later text may contain an earlier one too, not the reverse.
        let markers: [(&[&str], Syntax); 22] = [
            (&["<|start|>", "<|channel|>", "<|message|>"], Syntax::Harmony),
            (&["<|tool_call>"], Syntax::Gemma4),
            (&["<start_function_call>"], Syntax::FunctionGemma),
            (&["<｜tool▁call▁begin｜>"], Syntax::DeepSeek),
            (&["<|tool_call_begin|>"], Syntax::Kimi),
            (&["<|tool_call_start|>"], Syntax::Lfm2),
            // Some templates render only the tools, not the calls.
            (&["<|tool_list_start|>"], Syntax::Lfm2),
            (&["List of tools: "], Syntax::Lfm2),
            (&["<|START_ACTION|>"], Syntax::Cohere),
            (&["[TOOL_CALLS]"], Syntax::Mistral),
            (&["<function_calls>"], Syntax::Olmo3),
            (&["<arg_key>"], Syntax::Glm),
            (&["<function=", "<parameter="], Syntax::Xml),
            (&["<|tool_call|>"], Syntax::Pipes),
            (&["<|function_call|>"], Syntax::Pipes),
            (&["functools"], Syntax::Pipes),
            (&["<|/tool|>"], Syntax::Pipes),
            (&["<tool_call>"], Syntax::Hermes),
            (&["<tool_calls>"], Syntax::Hermes),
            (&["<|python_tag|>"], Syntax::Llama),
            (&["<TOOLCALL>"], Syntax::After("<TOOLCALL>".to_owned())),
            (&["<|tools_prefix|>"], Syntax::After("<|tools_prefix|>".to_owned())),
        ];
        let found = markers.into_iter().find(|(texts, _)| texts.iter().all(|text| source.contains(text)));
        found.map(|(_, syntax)| syntax)
    }

    /// Returns the syntax of calls that follow `tag` in a template. A tag is cut at a brace, and a list may follow it.
    pub(super) fn after(tag: &str) -> Syntax {
        match tag.trim().trim_end_matches('[').trim_end() {
            "" | "{" => Syntax::Llama,
            tag => Syntax::After(tag.to_owned()),
        }
    }

    /// Returns the tags of the syntax. Channels have none.
    pub(super) fn tags(&self) -> Cow<'static, [Tag]> {
        Cow::Borrowed(match self {
            Self::Hermes => hermes::HERMES,
            Self::Xml => xml::XML,
            Self::Llama => llama::LLAMA,
            Self::Mistral => mistral::MISTRAL,
            Self::Harmony => &[],
            Self::Gemma4 => gemma::GEMMA4,
            Self::FunctionGemma => gemma::FUNCTION_GEMMA,
            Self::DeepSeek => deepseek::DEEPSEEK,
            Self::Kimi => deepseek::KIMI,
            Self::Glm => glm::GLM,
            Self::Pipes => hermes::PIPES,
            Self::Lfm2 => python::LFM2,
            Self::Olmo3 => python::OLMO3,
            Self::Cohere => hermes::COHERE,
            Self::After(tag) => return Cow::Owned(generic::tags(tag)),
        })
    }

    /// Returns whether answers have tags around plain text too, so that they need the parser even without tools.
    pub(super) fn frames_text(&self) -> bool {
        matches!(self, Self::Harmony | Self::Cohere)
    }

    /// Returns the special tokens that the parser must see.
    pub(super) fn tokens(&self) -> Vec<&str> {
        match self {
            Self::Harmony => harmony::TOKENS.to_vec(),
            Self::After(tag) => vec![leading_token(tag)],
            _ => match self.tags() {
                Cow::Borrowed(tags) => tags.iter().flat_map(Tag::tokens).collect(),
                Cow::Owned(_) => Vec::new(),
            },
        }
    }
}

/// Returns the special token at the start of a tag, or the tag.
fn leading_token(tag: &str) -> &str {
    let end = match tag.chars().next() {
        Some('<') => tag.find('>'),
        Some('[') => tag.find(']'),
        _ => None,
    };
    end.and_then(|end| tag.get(..=end)).unwrap_or(tag)
}
