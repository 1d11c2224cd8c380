//! Conversations in a shape that strict Jinja templates accept.
//!
//! Some templates refuse a system message (Gemma 2), or two turns of one role in a row (Mistral). The templates that Ollama
//! has for these families merge such turns, and put the system message before the user's text. A refused conversation is
//! changed in the same way, so that its prompt is the same as Ollama's.

use super::{Error, RenderInput, Template};
use crate::message::Message;

/// Text between a system message and the user's text in templates with this mark.
const LINE_MARK: &str = "<start_of_turn>";

impl Template {
    /// Renders the conversation. If the template rejects it, renders it with merged turns, then also without system
    /// messages.
    ///
    /// # Errors
    /// Those of [`Self::render`]; the first rejection, if the template rejects all shapes.
    pub fn render_reshaped(&self, input: &RenderInput<'_>) -> Result<String, Error> {
        let refused = match self.render(input) {
            Err(error @ Error::Refused { .. }) => error,
            result => return result,
        };
        let shapes = [merged(input.messages), without_system(input.messages, self.source())];
        for messages in shapes.iter().flatten() {
            match self.render(&RenderInput { messages, ..input.clone() }) {
                Err(Error::Refused { .. }) => {}
                result => return result,
            }
        }
        Err(refused)
    }
}

/// Merges consecutive messages of one role. Returns `None` if there are none.
fn merged(messages: &[Message]) -> Option<Vec<Message>> {
    let mut merged: Vec<Message> = Vec::new();
    for message in messages {
        match merged.last_mut() {
            Some(last) if can_merge(last, message) => append(last, message.clone(), "\n\n"),
            _ => merged.push(message.clone()),
        }
    }
    (merged.len() < messages.len()).then_some(merged)
}

fn can_merge(first: &Message, second: &Message) -> bool {
    first.role == second.role
        && matches!(first.role.as_str(), "system" | "user" | "assistant")
        && first.tool_calls.is_empty()
}

/// Appends the text, images and calls of a message.
fn append(first: &mut Message, second: Message, between: &str) {
    if !first.content.is_empty() && !second.content.is_empty() {
        first.content.push_str(between);
    }
    first.content.push_str(&second.content);
    first.images.extend(second.images);
    first.tool_calls.extend(second.tool_calls);
}

/// Puts each system message before the text of the next user message, and merges consecutive messages. A system message
/// without a later user message becomes one. Returns `None` if there is no system message.
fn without_system(messages: &[Message], source: &str) -> Option<Vec<Message>> {
    let between = if source.contains(LINE_MARK) { "\n" } else { "\n\n" };
    let mut folded: Vec<Message> = Vec::new();
    let mut system: Option<Message> = None;
    for message in messages {
        match (message.role.as_str(), system.as_mut()) {
            ("system", None) => system = Some(Message { role: "user".to_owned(), ..message.clone() }),
            ("system", Some(system)) => append(system, message.clone(), "\n\n"),
            ("user", Some(_)) => {
                let mut turn = system.take().unwrap_or_default();
                append(&mut turn, message.clone(), between);
                folded.push(turn);
            }
            _ => folded.push(message.clone()),
        }
    }
    if system.is_none() && !messages.iter().any(|message| message.role == "system") {
        return None;
    }
    folded.extend(system);
    Some(merged(&folded).unwrap_or(folded))
}

#[cfg(test)]
mod tests {
    use crate::{Error, Message, RenderInput, Template};

    /// Accepts only turns that alternate, and no system message.
    const STRICT: &str = "{% for m in messages %}\
        {% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
        {% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}\
        <{{ m.role }}>{{ m.content }}{% endfor %}";

    fn check(source: &str, turns: &[(&str, &str)], wanted: Result<&str, &str>) {
        let messages: Vec<Message> = turns.iter().map(|(role, text)| Message::new(*role, *text)).collect();
        let template = Template::jinja(source).expect("the template is valid");
        let text = template.render_reshaped(&RenderInput { messages: &messages, ..RenderInput::default() });
        let wanted = wanted.map(str::to_owned).map_err(|reason| Error::Refused { reason: reason.to_owned() });
        assert_eq!(text, wanted, "{turns:?}");
    }

    #[test]
    fn refused_turns_are_merged() {
        check(STRICT, &[("user", "a"), ("user", "b")], Ok("<user>a\n\nb"));
        check(
            STRICT,
            &[("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d")],
            Ok("<user>a<assistant>b\n\nc<user>d"),
        );
        check("{{ messages | length }}", &[("user", "a"), ("user", "b")], Ok("2"));
    }

    #[test]
    fn refused_system_message_precedes_the_users_text() {
        check(STRICT, &[("system", "s"), ("user", "a")], Ok("<user>s\n\na"));
        check(STRICT, &[("system", "s"), ("system", "t"), ("user", "a"), ("user", "b")], Ok("<user>s\n\nt\n\na\n\nb"));
        check(
            STRICT,
            &[("user", "a"), ("assistant", "b"), ("system", "s"), ("user", "c")],
            Ok("<user>a<assistant>b<user>s\n\nc"),
        );
        check(STRICT, &[("user", "a"), ("system", "s")], Ok("<user>a\n\ns"));
        let lines = format!("{STRICT}{{# <start_of_turn> #}}");
        check(&lines, &[("system", "s"), ("user", "a")], Ok("<user>s\na"));
    }

    #[test]
    fn refusal_for_other_reasons_remains() {
        check(STRICT, &[("assistant", "a"), ("user", "b")], Err("alternate"));
        check(STRICT, &[("system", "s"), ("assistant", "a")], Err("no system"));
        check("{{ raise_exception('never') }}", &[("user", "a"), ("user", "b")], Err("never"));
    }
}
