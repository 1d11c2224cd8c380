//! The inference request for the answer to a user's message.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cairn_chats::{AttachedFile, ChatMessage, MessageState, StepCall, StepCallState, StoredChat, ToolStep};
use serde_json::{Map, Value};

use super::fence::fenced;
use super::ids::{is_temporary, owner};
use super::sources;
use crate::inference::Chat;
use crate::values::Think;
use cairn_prompt::{Image, Message, ToolCall};
use cairn_runtime::CacheScope;

/// Text that replaces an image that the model cannot see.
const UNSEEN: &str = "(An image was here, which this model cannot see.)";

/// Result of a call that the user refused.
const REFUSED: &str = "The user refused this call.";
/// Result of a call that was interrupted.
const INTERRUPTED: &str = "This call was interrupted.";

/// Images of results that are in memory, by the index of the step and the number of the call.
pub(super) type ResultImages = HashMap<(usize, usize), Vec<Image>>;

/// Returns the request for the answer to the last of these messages.
pub(super) fn request(
    chat: &StoredChat,
    model: &str,
    path: &[ChatMessage],
    think: Option<Think>,
    options: Option<Map<String, Value>>,
) -> Chat {
    let system = chat.system.as_deref().filter(|system| !system.trim().is_empty());
    let system = system.map(|text| Message::new("system", text));
    let messages = path.iter().flat_map(prompt_messages);
    let mut all = chat.options.clone();
    all.extend(options.unwrap_or_default());
    Chat {
        model: model.to_owned(),
        messages: system.into_iter().chain(messages).collect(),
        options: Some(all),
        think: think.or(chat.think),
        unseen_images: Some(UNSEEN),
        scope: CacheScope {
            owner: Some(owner(&chat.row.id)),
            incognito: is_temporary(&chat.row.id),
            ..CacheScope::default()
        },
        ..Chat::default()
    }
}

/// Returns the messages of the prompt for one of a chat: its calls of tools, and the message itself.
fn prompt_messages(message: &ChatMessage) -> Vec<Message> {
    let mut messages = step_messages(&message.steps, &ResultImages::new());
    messages.extend((!is_empty_answer(message)).then(|| prompt_message(message)));
    messages
}

/// Returns the messages of steps: for each step what the model wrote, with its calls, and a message for each result. An image of a
/// result that is not in `images` becomes the text for models that cannot see.
pub(super) fn step_messages(steps: &[ToolStep], images: &ResultImages) -> Vec<Message> {
    let mut messages = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let tool_calls = step.calls.iter().map(tool_call).collect();
        let thinking = step.thinking.clone();
        messages.push(Message { thinking, tool_calls, ..Message::new("assistant", &*step.content) });
        for (number, call) in step.calls.iter().enumerate() {
            let images = images.get(&(index, number)).cloned().unwrap_or_default();
            let unseen = (call.images as usize).saturating_sub(images.len());
            messages.push(Message {
                tool_name: Some(call.function.clone()),
                tool_call_id: Some(call.id.clone()),
                images,
                ..Message::new("tool", result_text(call) + &format!("\n{UNSEEN}").repeat(unseen))
            });
        }
    }
    messages
}

fn tool_call(call: &StepCall) -> ToolCall {
    ToolCall { id: Some(call.id.clone()), name: call.function.clone(), arguments: call.arguments.clone().into() }
}

/// Returns the result of a call as the model reads it.
fn result_text(call: &StepCall) -> String {
    match call.state {
        StepCallState::Done | StepCallState::Failed => call.result.clone().unwrap_or_default(),
        StepCallState::Refused => REFUSED.to_owned(),
        StepCallState::Waiting | StepCallState::Running | StepCallState::Interrupted => INTERRUPTED.to_owned(),
    }
}

/// Whether a message is an incomplete answer without text, which is not part of the prompt.
fn is_empty_answer(message: &ChatMessage) -> bool {
    message.role == "assistant" && message.content.is_empty() && message.state != MessageState::Complete
}

/// Returns a message of the prompt: first passages of documents, then its files, then its text.
fn prompt_message(message: &ChatMessage) -> Message {
    let mut content = message.sources.as_deref().map(sources::text).unwrap_or_default();
    for AttachedFile { name, text } in &message.files {
        content += &format!("{name}:\n{}\n\n", fenced(text));
    }
    content += &message.content;
    let images = message.images.iter().map(|text| image(text)).collect();
    Message { thinking: message.thinking.clone(), images, ..Message::new(&message.role, content) }
}

/// Reads an image in base64. One that is not valid has no bytes, and is refused with its number.
pub(super) fn image(base64: &str) -> Image {
    Image { bytes: BASE64_STANDARD.decode(base64).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use cairn_prompt::{RenderInput, Template};
    use serde_json::json;

    use super::*;
    use crate::values::Timestamp;

    fn question(content: &str) -> ChatMessage {
        ChatMessage::new("user", content, Timestamp::from_unix_ms(1))
    }

    #[test]
    fn attached_files_precede_message_text_in_code_fences() {
        let check = |text: &str, expected: &str| {
            let files = vec![AttachedFile { name: "a.md".to_owned(), text: text.to_owned() }];
            let message = ChatMessage { files, ..question("What is it?") };
            assert_eq!(prompt_message(&message).content, expected, "{text:?}");
        };
        check("plain", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("plain\n", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("```\ncode\n```", "a.md:\n````\n```\ncode\n```\n````\n\nWhat is it?");
        check("`````", "a.md:\n``````\n`````\n``````\n\nWhat is it?");
    }

    #[test]
    fn images_are_decoded() {
        let message = ChatMessage { images: vec!["aGk=".to_owned(), "x".to_owned()], ..question("Look") };
        let Message { content, images, .. } = prompt_message(&message);
        let bytes: Vec<Vec<u8>> = images.into_iter().map(|image| image.bytes).collect();
        assert_eq!((content.as_str(), bytes), ("Look", vec![b"hi".to_vec(), vec![]]), "valid and invalid base64");
    }

    fn call(id: &str, state: StepCallState, result: Option<&str>) -> StepCall {
        StepCall {
            id: id.to_owned(),
            function: "notes__read".to_owned(),
            origin: "notes".to_owned(),
            tool: "read".to_owned(),
            arguments: json!({ "path": "a.txt" }).as_object().expect("an object").clone(),
            state,
            result: result.map(str::to_owned),
            truncated: false,
            images: 0,
            duration_ms: None,
        }
    }

    fn answer(steps: Vec<ToolStep>, content: &str, state: MessageState) -> ChatMessage {
        ChatMessage { steps, state, ..ChatMessage::new("assistant", content, Timestamp::from_unix_ms(2)) }
    }

    #[test]
    fn steps_become_calls_and_results() {
        let states = [
            (StepCallState::Done, Some("three"), "three"),
            (StepCallState::Failed, Some("no such file"), "no such file"),
            (StepCallState::Refused, None, REFUSED),
            (StepCallState::Interrupted, None, INTERRUPTED),
        ];
        let calls = states.iter().map(|(state, result, _)| call("call_1", *state, *result)).collect();
        let step = ToolStep { thinking: Some("hm".to_owned()), content: "Let me look.".to_owned(), calls };
        let messages = prompt_messages(&answer(vec![step], "", MessageState::Stopped));
        let [called, results @ ..] = &messages[..] else { panic!("a message") };
        assert_eq!((&*called.role, &*called.content, called.tool_calls.len()), ("assistant", "Let me look.", 4));
        assert_eq!(called.tool_calls[0].arguments, json!({ "path": "a.txt" }));
        let texts: Vec<&str> = results.iter().map(|result| &*result.content).collect();
        assert_eq!(texts, states.map(|(_, _, text)| text), "an answer without a text ends with the results");
        assert!(
            results.iter().all(|result| result.role == "tool" && result.tool_name.as_deref() == Some("notes__read"))
        );
    }

    #[test]
    fn missing_image_of_a_result_is_a_text() {
        let seen = StepCall { images: 1, ..call("call_1", StepCallState::Done, Some("a chart")) };
        let steps = [ToolStep { calls: vec![seen], ..ToolStep::default() }];
        let stored = step_messages(&steps, &ResultImages::new());
        assert_eq!((&*stored[1].content, stored[1].images.len()), (&*format!("a chart\n{UNSEEN}"), 0), "from the disk");
        let images = ResultImages::from([((0, 0), vec![image("aGk=")])]);
        let fresh = step_messages(&steps, &images);
        assert_eq!((&*fresh[1].content, fresh[1].images.len()), ("a chart", 1), "while the answer is computed");
    }

    #[test]
    fn next_prompt_begins_with_the_prompts_of_all_steps() {
        const TEMPLATE: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n\
            {{ message.content }}{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}\
            <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let template = Template::jinja(TEMPLATE).expect("the template is valid");
        let tools = json!([{"type": "function", "function": {"name": "notes__read"}}]);
        let render = |messages: &[Message]| {
            let input =
                RenderInput { messages, tools: Some(&tools), add_generation_prompt: true, ..RenderInput::default() };
            template.render(&input).expect("rendered")
        };
        let step = |content: &str, result: &str| {
            let calls =
                vec![call("call_1", StepCallState::Done, Some(result)), call("call_2", StepCallState::Refused, None)];
            ToolStep { content: content.to_owned(), calls, ..ToolStep::default() }
        };
        let steps = vec![step("One.", "three"), step("", "four")];
        // The prompts of the steps of the answer, as they were computed.
        let prompts: Vec<String> = (0..=steps.len())
            .map(|done| {
                let mut messages = prompt_messages(&question("Why?"));
                messages.extend(step_messages(&steps[..done], &ResultImages::new()));
                render(&messages)
            })
            .collect();
        let path = [question("Why?"), answer(steps, "Seven.", MessageState::Complete), question("And now?")];
        let next = render(&path.iter().flat_map(prompt_messages).collect::<Vec<_>>());
        for (index, prompt) in prompts.iter().enumerate() {
            assert!(next.starts_with(prompt), "step {index}: {prompt}\n\n{next}");
        }
        let answered = format!("{}Seven.<|im_end|>", prompts[2]);
        assert!(next.starts_with(&answered), "the text of the answer follows: {next}");
    }
}
