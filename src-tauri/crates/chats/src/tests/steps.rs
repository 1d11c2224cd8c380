//! Calls of tools are stored with their answer, and calls without a result do not survive the program.

use serde_json::json;

use super::*;

/// A step with one call that is done.
pub(super) fn step(result: &str) -> ToolStep {
    let arguments = json!({ "path": "a.txt" }).as_object().expect("an object").clone();
    let call = StepCall {
        id: "call_1".to_owned(),
        function: "notes__read".to_owned(),
        origin: "notes".to_owned(),
        tool: "read".to_owned(),
        arguments,
        state: StepCallState::Done,
        result: Some(result.to_owned()),
        truncated: false,
        images: 1,
        duration_ms: Some(7),
    };
    ToolStep { thinking: Some("hm".to_owned()), content: "Let me look.".to_owned(), calls: vec![call] }
}

/// A step with one call in a state without a result.
fn open_step(state: StepCallState) -> ToolStep {
    let mut step = step("");
    let call = step.calls.remove(0);
    step.calls.push(StepCall { state, result: None, duration_ms: None, ..call });
    step
}

fn left_out() -> Vec<ToolsLeftOut> {
    vec![ToolsLeftOut {
        cause: LeftOutCause::Failure,
        origin: Some("web".to_owned()),
        count: None,
        reason: "off".to_owned(),
    }]
}

/// Adds a chat with an answer in progress and returns the answer.
fn answering(home: &Home) -> ChatMessage {
    home.create("c", 1);
    let question = home.add("c", None, "user", "why", 2);
    let answering = ChatMessage { state: MessageState::Answering, ..message("assistant", "", 3) };
    home.chats.add("c", Some(&question), &[answering], 3).expect("an answer").remove(0)
}

fn states(message: &ChatMessage) -> Vec<StepCallState> {
    message.steps.iter().flat_map(|step| &step.calls).map(|call| call.state).collect()
}

#[test]
fn steps_are_stored_with_the_answer() {
    let home = Home::new();
    let answer = answering(&home);
    assert_eq!((answer.steps.len(), answer.tools_left_out.len()), (0, 0), "none at first");
    let waiting = open_step(StepCallState::Waiting);
    let mut progress = AnswerProgress { steps: vec![waiting], tools_left_out: left_out(), ..AnswerProgress::default() };
    home.chats.write_progress(&answer.id, &progress).expect("progress");
    let stored = home.chats.message("c", &answer.id).expect("the answer");
    assert_eq!(states(&stored), [StepCallState::Waiting], "the call waits");
    progress.steps = vec![step("three"), open_step(StepCallState::Running)];
    progress.content = "It is three.".to_owned();
    let done = home.chats.finish("c", &answer.id, &progress, (MessageState::Stopped, None), 4).expect("the end");
    assert_eq!(states(&done), [StepCallState::Done, StepCallState::Interrupted], "nothing runs after the end");
    assert_eq!((&done.steps[0], &done.tools_left_out), (&step("three"), &left_out()), "all fields are stored");
    assert_eq!(AnswerProgress::of(&done).in_answer(&answer).steps, done.steps, "a continued answer has them");
    let resumed = home.chats.resume_answer("c", &answer.id).expect("resumed");
    assert_eq!(resumed.steps, done.steps, "a continued answer keeps them");
}

#[test]
fn calls_without_a_result_are_interrupted_after_a_kill() {
    let home = Home::new();
    let answer = answering(&home);
    let open = [StepCallState::Waiting, StepCallState::Running].map(open_step);
    let steps = [vec![step("three")], open.to_vec()].concat();
    let progress = AnswerProgress { steps, content: "text".to_owned(), ..AnswerProgress::default() };
    home.chats.write_progress(&answer.id, &progress).expect("progress");
    let chats = home.after_kill();
    assert_eq!(chats.interrupted(), 1, "one answer");
    let message = chats.message("c", &answer.id).expect("the answer");
    let interrupted = StepCallState::Interrupted;
    assert_eq!(states(&message), [StepCallState::Done, interrupted, interrupted], "only those without a result");
    assert_eq!((message.state, &*message.content), (MessageState::Interrupted, "text"), "as other answers");
    assert_eq!(message.steps[0], step("three"), "the result is kept");
}

#[test]
fn imported_and_restored_answers_have_no_open_calls() {
    let home = Home::new();
    let question = ChatMessage { id: "1".to_owned(), ..message("user", "why", 1) };
    let steps = vec![step("three"), open_step(StepCallState::Running)];
    let answer = ChatMessage {
        id: "2".to_owned(),
        parent: Some("1".to_owned()),
        steps,
        tools_left_out: left_out(),
        ..message("assistant", "It is three.", 2)
    };
    home.chats.import(&[imported("c", vec![question, answer])], TrashPolicy::Keep).expect("imported");
    let expected = [StepCallState::Done, StepCallState::Interrupted];
    let [_, message] = &home.chats.messages("c").expect("messages")[..] else { panic!("two messages") };
    assert_eq!((states(message), &message.tools_left_out), (expected.to_vec(), &left_out()), "imported");
    let edited = home.chats.edit_answer("c", &message.id, "Four.", 3).expect("edited");
    assert_eq!((&edited.steps, edited.edited), (&message.steps, true), "an edited answer keeps the calls");
    let deleted = home.chats.delete_branch("c", &message.id, 4).expect("deleted");
    home.chats.restore_branch("c", &deleted, 5).expect("restored");
    let messages = home.chats.messages("c").expect("messages");
    let restored = messages.iter().find(|message| message.content == "It is three.").expect("the answer");
    assert_eq!((states(restored), &restored.steps[0]), (expected.to_vec(), &step("three")), "restored");
}

#[test]
fn unreadable_steps_do_not_hide_the_message() {
    let home = Home::new();
    let answer = answering(&home);
    let progress = AnswerProgress { content: "text".to_owned(), ..AnswerProgress::default() };
    home.chats.write_progress(&answer.id, &progress).expect("progress");
    for steps in ["{", "[{\"content\": 1}]", "[{\"content\":\"\",\"calls\":[{\"state\":\"of a later version\"}]}]"] {
        let set = "UPDATE messages SET steps = ?1 WHERE content = 'text'";
        home.chats.with_writer(|writer| Ok(writer.execute(set, [steps])?)).expect("written");
        let message = home.after_kill().message("c", &answer.id).expect("the answer");
        assert_eq!((&*message.content, message.steps.len()), ("text", 0), "{steps}");
    }
}
