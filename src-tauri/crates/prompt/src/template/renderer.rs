//! Templates that correspond to Ollama's built-in renderers.
//!
//! The configuration of a library model may name a renderer, a function of Ollama, instead of a template. Here, each
//! renderer is a Jinja template that writes the same prompts, so it has the limits and the capabilities of any template.
//! There is a row for each renderer of a model family that the engine runs. The sources are the templates that the models'
//! authors publish, and Google's documentation of FunctionGemma. Where Ollama's prompts are used instead, the template's
//! first lines name the difference.
//!
//! The other renderers belong to families that the engine does not run: `cohere`, `glimmer`, `glm-ocr`, `laguna` and
//! `poolside-v1`. A model with a renderer without a row is refused before its download, unless another template can replace the
//! renderer.
//!
//! Templates contain no placeholders of images: the messages already have marks where images belong.

use std::sync::OnceLock;

use super::Template;

/// A renderer by its name in configurations.
struct Renderer {
    name: &'static str,
    source: &'static str,
    /// The parsed template, from the first use on.
    template: OnceLock<Template>,
}

/// Joins flags, shared macros and a template to a source.
macro_rules! source {
    ($($flag:literal)? ; $($file:literal),+) => {
        concat!($($flag, "\n",)? $(include_str!(concat!("renderer/", $file, ".jinja"))),+)
    };
}

static RENDERERS: [Renderer; 21] = [
    Renderer::new("cogito", source!(; "cogito")),
    Renderer::new("deepseek3.1", source!(; "deepseek31")),
    Renderer::new("functiongemma", source!(; "functiongemma")),
    Renderer::new("gemma4", source!("{%- set ends_thoughts = false %}"; "gemma4")),
    Renderer::new("gemma4-large", source!("{%- set ends_thoughts = true %}"; "gemma4")),
    Renderer::new("gemma4-small", source!("{%- set ends_thoughts = false %}"; "gemma4")),
    Renderer::new("glm-4.7", source!(; "glm47")),
    Renderer::new("lfm2", source!("{%- set thinks = false %}"; "lfm2")),
    Renderer::new("lfm2-thinking", source!("{%- set thinks = true %}"; "lfm2")),
    Renderer::new("nemotron-3-nano", source!("{%- set has_effort = false %}"; "xml_calls", "nemotron3")),
    Renderer::new("nemotron-3.5-nano", source!("{%- set has_effort = true %}"; "xml_calls", "nemotron3")),
    Renderer::new(
        "olmo3",
        source!("{%- set identity = 'You are a helpful function-calling AI assistant. ' %}"; "olmo3"),
    ),
    Renderer::new(
        "olmo3.1",
        concat!(
            "{%- set identity = 'You are Olmo, a helpful AI assistant built by Ai2. Your date cutoff is December 2024, ",
            "and your model weights are available at https://huggingface.co/allenai. ' %}\n",
            include_str!("renderer/olmo3.jinja"),
        ),
    ),
    Renderer::new(
        "olmo3-think",
        concat!(
            "{%- set identity = 'You are Olmo, a helpful AI assistant built by Ai2. Your date cutoff is December 2024, ",
            "and your model weights are available at https://huggingface.co/allenai.' %}\n",
            include_str!("renderer/olmo3_think.jinja"),
        ),
    ),
    Renderer::new("olmo3-32b-think", source!("{%- set identity = 'You are a helpful AI assistant.' %}"; "olmo3_think")),
    Renderer::new(
        "ornith",
        source!("{%- set keeps_thoughts = true %}{%- set has_effort = false %}"; "xml_calls", "qwen35"),
    ),
    Renderer::new("qwen3-coder", source!(; "xml_calls", "qwen3_coder")),
    Renderer::new("qwen3-vl-instruct", source!("{%- set thinks = false %}"; "qwen3_vl")),
    Renderer::new("qwen3-vl-thinking", source!("{%- set thinks = true %}"; "qwen3_vl")),
    Renderer::new(
        "qwen3.5",
        source!("{%- set keeps_thoughts = false %}{%- set has_effort = false %}"; "xml_calls", "qwen35"),
    ),
    Renderer::new(
        "qwen3.8",
        source!("{%- set keeps_thoughts = true %}{%- set has_effort = true %}"; "xml_calls", "qwen35"),
    ),
];

impl Renderer {
    const fn new(name: &'static str, source: &'static str) -> Renderer {
        Renderer { name, source, template: OnceLock::new() }
    }

    fn template(&self) -> &Template {
        self.template.get_or_init(|| Template::jinja(self.source).expect("the built-in templates are valid"))
    }
}

impl Template {
    /// Returns the template of a renderer that a model's configuration names. `None`: the name is unknown. The name `gemma4` means
    /// `gemma4-large` for a large model: the caller replaces it.
    pub fn by_renderer_name(name: &str) -> Option<Template> {
        RENDERERS.iter().find(|renderer| renderer.name == name).map(|renderer| renderer.template().clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::answer::AnswerFormat;

    #[test]
    fn renderer_has_the_capabilities_of_its_parser() {
        for renderer in &RENDERERS {
            let name = renderer.name;
            let format = AnswerFormat::by_parser_name(name).unwrap_or_else(|| panic!("{name}: no parser of the name"));
            let shows = renderer.template().capabilities();
            let calls = format.tool_calls.is_some();
            assert_eq!((shows.tools, shows.tool_results), (calls, calls), "{name}: tools");
            renderer.template().check_renders().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let names: HashSet<&str> = RENDERERS.iter().map(|renderer| renderer.name).collect();
        assert_eq!(names.len(), RENDERERS.len(), "different names");
        let prompts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/renderers");
        // `gemma4` means one of two others.
        for name in names.into_iter().filter(|name| *name != "gemma4") {
            assert!(prompts.join(format!("{name}.txt")).exists(), "{name} has recorded prompts");
        }
        assert!(Template::by_renderer_name("Olmo3").is_none(), "names are case-sensitive");
        assert!(Template::by_renderer_name("").is_none(), "no name");
    }
}
