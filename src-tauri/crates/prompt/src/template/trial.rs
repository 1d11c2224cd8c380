//! A trial of a template: small conversations show whether it can render any.

use serde_json::{Value, json};

use super::{Error, RenderInput, Template};
use crate::message::Message;

/// Roles and texts of the conversations.
const CONVERSATIONS: [&[(&str, &str)]; 3] = [
    &[("user", "Hi")],
    &[("system", "Be brief."), ("user", "Hi")],
    &[("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")],
];

impl Template {
    /// Renders three small conversations, each with and without a tool, to find out whether the template can render at all.
    ///
    /// # Errors
    /// The error of the first conversation, if all fail.
    pub fn check_renders(&self) -> Result<(), Error> {
        let tools = tools();
        let mut first = Ok(());
        for conversation in CONVERSATIONS {
            let messages: Vec<Message> = conversation.iter().map(|(role, text)| Message::new(*role, *text)).collect();
            for tools in [None, Some(&tools)] {
                let input =
                    RenderInput { messages: &messages, tools, add_generation_prompt: true, ..RenderInput::default() };
                match self.render_reshaped(&input) {
                    Ok(_) => return Ok(()),
                    Err(error) => first = first.and(Err(error)),
                }
            }
        }
        first
    }
}

fn tools() -> Value {
    json!([{ "type": "function", "function": {
        "name": "weather",
        "description": "Returns the weather.",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": { "city": { "type": "string", "description": "The city." } },
        },
    } }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: Result<Template, Error>, wanted: Result<(), &str>) {
        let template = template.expect("the template is valid");
        let result = template.check_renders().map_err(|error| error.to_string());
        assert_eq!(result.as_ref().map_err(String::as_str), wanted.as_ref().map_err(|text| *text), "{template:?}");
    }

    #[test]
    fn template_that_renders_one_conversation_passes() {
        check(Template::go("{{ .Prompt }}"), Ok(()));
        check(Template::go("{{ range .Messages }}{{ .Content }}{{ end }}{{ len (index .Tools 0).Type }}"), Ok(()));
        check(Template::go("{{ with .System }}{{ . }}{{ else }}{{ index 1 1 }}{{ end }}{{ .Messages }}"), Ok(()));
        check(Template::jinja("{% if messages|length < 3 %}{{ raise_exception('no') }}{% endif %}"), Ok(()));
    }

    #[test]
    fn template_that_fails_always_is_refused_with_its_line() {
        check(
            Template::go("{{ .Messages }}\n{{ template \"x\" . }}"),
            Err("the chat template failed: line 2: there is no template \"x\""),
        );
        check(
            Template::go("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" .Messages }}"),
            Err("the chat template exceeds the limit on its depth"),
        );
        check(
            Template::jinja("{{ raise_exception('never') }}"),
            Err("the chat template refuses this conversation: never"),
        );
    }
}
