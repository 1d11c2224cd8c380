//! Templates that correspond to Ollama's built-in renderers.
//!
//! The configuration of a library model may name a renderer, a function of Ollama, instead of a template. Here, each
//! renderer is a Jinja template that writes the same prompts, so it has the limits and the capabilities of any template.
//! There is a row for each renderer of a model family that the engine runs. The sources are the templates that the models'
//! authors publish, and Google's documentation of FunctionGemma. Where Ollama's prompts are used instead, the template's
//! first lines name the difference.

use std::sync::OnceLock;

use super::Template;

/// A renderer by its name in configurations.
struct Renderer {
    name: &'static str,
    source: &'static str,
    /// The parsed template, from the first use on.
    template: OnceLock<Template>,
}

static RENDERERS: [Renderer; 8] = [
    Renderer::new("functiongemma", include_str!("renderer/functiongemma.jinja")),
    Renderer::new(
        "olmo3",
        concat!(
            "{%- set identity = 'You are a helpful function-calling AI assistant. ' %}\n",
            include_str!("renderer/olmo3.jinja"),
        ),
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
    Renderer::new(
        "olmo3-32b-think",
        concat!(
            "{%- set identity = 'You are a helpful AI assistant.' %}\n",
            include_str!("renderer/olmo3_think.jinja"),
        ),
    ),
    Renderer::new("qwen3-coder", include_str!("renderer/qwen3_coder.jinja")),
    Renderer::new("qwen3-vl-instruct", concat!("{%- set thinks = false %}\n", include_str!("renderer/qwen3_vl.jinja"))),
    Renderer::new("qwen3-vl-thinking", concat!("{%- set thinks = true %}\n", include_str!("renderer/qwen3_vl.jinja"))),
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
    /// Returns the template of a renderer that a model's configuration names. `None`: the name is unknown.
    pub fn by_renderer_name(name: &str) -> Option<Template> {
        RENDERERS.iter().find(|renderer| renderer.name == name).map(|renderer| renderer.template().clone())
    }
}

#[cfg(test)]
mod tests {
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
        assert!(Template::by_renderer_name("Olmo3").is_none(), "names are case-sensitive");
        assert!(Template::by_renderer_name("").is_none(), "no name");
    }
}
