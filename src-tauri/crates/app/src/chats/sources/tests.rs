//! Questions of chats with a collection, answered by a model that recites what it found in its prompt.

use std::task::Poll;
use std::time::Duration;

use cairn_chats::{AnswerRequest, ChatChange, ChatLine, ChatMessage, NewChatRequest, SendRequest};
use cairn_testkit::{Script, scripted};

use super::super::edit::PathPart;
use super::super::follow::Follower;
use super::*;
use crate::App;
use crate::clock::Clock;
use crate::documents::Extractor;
use crate::library::installation::install;
use crate::settings::{Env, Places, Settings, System};
use crate::values::{CollectionChange, ErrorBody, NewCollectionRequest, WordsOnly};

/// The model finds out whether the last question, or an earlier one, has a passage about stones.
const READER: &str = "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}\
    {% set last = messages[-1].content %}{% if '[1] stone.pdf, page 7:' in last %}<|script0|>\
    {% elif 'found no passage' in last %}<|script1|>{% elif '[1] stone.pdf, page 7:' in messages[0].content %}<|script2|>\
    {% else %}<|script3|>{% endif %}";
const FOUND: &str = "Stones are green.";
const NOT_FOUND: &str = "No passage fits.";
const EARLIER: &str = "As written above.";
const WITHOUT: &str = "Nothing was searched.";

/// Reads one line as the text of a page.
const EXTRACTOR: &str = r#"read -r text
echo "{\"part\":{\"place\":{\"kind\":\"page\",\"number\":7},\"text\":\"$text\"}}"
echo '{"done":{"format":"pdf","pages":7}}'
"#;

struct Fixture {
    _home: tempfile::TempDir,
    app: App,
    collection: String,
    chat: String,
}

impl Fixture {
    /// Starts a daemon with a chat about a collection with one document.
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let texts = [FOUND, NOT_FOUND, EARLIER, WITHOUT];
        let begins = ["<|script0|>", "<|script1|>", "<|script2|>", "<|script3|>"];
        let scripts: Vec<Script<'_>> = begins.iter().zip(texts).map(|(begin, text)| Script { begin, text }).collect();
        install(home.path(), "reader", &scripted(READER, &scripts, &[]));
        let home_text = home.path().to_str().expect("a path in UTF-8");
        let env = [
            ("CAIRN_HOME", home_text),
            ("OLLAMA_KV_TIERING", "0"),
            ("CAIRN_KERNEL", "scalar"),
            ("CAIRN_CHAT_TITLES", "0"),
        ];
        let env = Env::of(env);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("places"));
        let extractor = Extractor::new("/bin/sh".into(), ["-c".into(), EXTRACTOR.into()], Duration::from_secs(60));
        let app = App::with_extractor(settings, Clock::real(), extractor);
        let new = NewCollectionRequest { name: "Stones".to_owned(), model: Some(String::new()) };
        let collection = app.collections().create(new).await.expect("a collection").id;
        let document = b"the green stone\n".to_vec();
        app.collections().add_document(&collection, "stone.pdf", document, ()).await.expect("a document");
        let new = NewChatRequest {
            model: Some("reader".to_owned()),
            collection: Some(collection.clone()),
            ..NewChatRequest::default()
        };
        let chat = app.chats().create_chat(new).expect("a chat").stored.row.id;
        Self { _home: home, app, collection, chat }
    }

    /// Sends a message. Returns the stored question and its answer.
    async fn ask(&self, content: &str) -> (ChatMessage, String) {
        let ask = SendRequest { content: content.to_owned(), ..SendRequest::default() };
        let mut follower = self.app.chats().ask_in_chat(&self.chat, ask, ()).await.expect("an answer");
        let Some(ChatLine::User(question)) = follower.next().await else { panic!("the first line is the question") };
        (*question, end(&mut follower).await)
    }
}

async fn end(follower: &mut Follower) -> String {
    while let Some(line) = follower.next().await {
        match line {
            ChatLine::Done(message) => return message.content,
            ChatLine::Failed(message) => panic!("failed: {:?}", message.error),
            _ => {}
        }
    }
    panic!("the answer has an end")
}

fn sources(message: &ChatMessage) -> &Sources {
    message.sources.as_deref().unwrap_or_else(|| panic!("no sources: {message:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_sent_with_the_passages_of_its_collection() {
    let fixture = Fixture::new().await;
    let (question, answer) = fixture.ask("Which stone is green?").await;
    assert_eq!(answer, FOUND, "the model has read the passage");
    let found = sources(&question);
    assert_eq!((&*found.name, found.hits.len(), found.words_only), ("Stones", 1, Some(WordsOnly::NoModel)));
    assert_eq!((&*found.hits[0].name, &*found.hits[0].text), ("stone.pdf", "the green stone"));

    let (nothing, answer) = fixture.ask("Where do birds sleep?").await;
    assert_eq!(answer, NOT_FOUND, "the model learns that nothing was found");
    assert_eq!(sources(&nothing).hits, []);

    let again = AnswerRequest { message: Some(question.id.clone()), ..AnswerRequest::default() };
    fixture.app.collections().delete(&fixture.collection).await.expect("the collection is deleted");
    let mut follower = fixture.app.chats().answer_again(&fixture.chat, again, ()).await.expect("an answer");
    assert_eq!(end(&mut follower).await, FOUND, "another answer has the stored passages");
}

#[tokio::test(flavor = "multi_thread")]
async fn later_prompts_keep_the_passages_of_earlier_questions() {
    let fixture = Fixture::new().await;
    fixture.ask("Which stone is green?").await;
    let none = ChatChange { collection: Some(None), ..ChatChange::default() };
    fixture.app.chats().change_chat(&fixture.chat, none).expect("the chat has no collection now");
    let (question, answer) = fixture.ask("Are you sure?").await;
    assert_eq!((answer.as_str(), question.sources), (EARLIER, None), "only the first question has passages");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_passages_continue_along_a_branch() {
    let fixture = Fixture::new().await;
    let document = b"the green leaf\n".to_vec();
    fixture.app.collections().add_document(&fixture.collection, "leaf.pdf", document, ()).await.expect("a document");
    let (first, _) = fixture.ask("Is anything green?").await;
    assert_eq!((sources(&first).first, sources(&first).hits.len()), (1, 2));
    let (second, _) = fixture.ask("Where do birds sleep?").await;
    assert_eq!((sources(&second).first, sources(&second).hits.len()), (3, 0), "nothing was found");
    let (third, _) = fixture.ask("Which leaf?").await;
    assert_eq!(sources(&third).first, 3);
    assert!(text(sources(&third)).contains("\n[3] leaf.pdf"), "the number in the prompt");
    let other = SendRequest { content: "Which stone?".to_owned(), parent: Some(None), ..SendRequest::default() };
    let mut follower = fixture.app.chats().ask_in_chat(&fixture.chat, other, ()).await.expect("an answer");
    let Some(ChatLine::User(other)) = follower.next().await else { panic!("the question") };
    assert_eq!(sources(&other).first, 1, "another branch has its own numbers");
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_stored_if_the_client_leaves_during_the_search() {
    let fixture = Fixture::new().await;
    let ask = SendRequest { content: "Which stone is green?".to_owned(), ..SendRequest::default() };
    let mut events = fixture.app.chats().chat_events();
    let mut asking = Box::pin(fixture.app.chats().ask_in_chat(&fixture.chat, ask, ()));
    let polled = std::future::poll_fn(|context| Poll::Ready(asking.as_mut().poll(context).is_ready())).await;
    assert!(!polled, "the search has begun");
    drop(asking);
    let stored = async {
        loop {
            let part = PathPart { leaf: None, before: None, limit: 100 };
            let path = fixture.app.chats().chat_path(&fixture.chat, &part).expect("the messages").messages;
            if path.last().is_some_and(|last| last.content == FOUND) {
                return path;
            }
            events.next().await;
        }
    };
    let stored = tokio::time::timeout(Duration::from_secs(60), stored).await.expect("the question is answered");
    assert_eq!(sources(&stored[0]).hits.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_search_is_reported_with_the_question() {
    let fixture = Fixture::new().await;
    fixture.app.collections().delete(&fixture.collection).await.expect("the collection is deleted");
    let (question, answer) = fixture.ask("Which stone is green?").await;
    assert_eq!(answer, WITHOUT, "the question is answered without passages");
    let error = sources(&question).error.as_ref().expect("the reason");
    assert!(error.error.contains(&fixture.collection), "{error:?}");
    let part = PathPart { leaf: None, before: None, limit: 100 };
    let stored = fixture.app.chats().chat_path(&fixture.chat, &part).expect("the messages").messages;
    assert_eq!(sources(&stored[0]).error.as_ref(), Some(error), "the reason is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn pasted_text_is_searched_by_its_beginning() {
    let fixture = Fixture::new().await;
    let rename = CollectionChange { name: Some("Rocks".to_owned()), ..CollectionChange::default() };
    fixture.app.collections().change(&fixture.collection, rename).await.expect("the collection has a new name");
    let long = format!("stone {}", "é".repeat(1 << 16));
    let found = fixture.app.collections().sources(&fixture.collection, &long).await;
    assert_eq!((&*found.name, found.hits.len(), found.error), ("Rocks", 1, None));
}

fn hit(place: PartPlace, text: &str) -> CollectionHit {
    let (document, name, text) = ("1".to_owned(), "tea.pdf".to_owned(), text.to_owned());
    CollectionHit { document, name, place, chunk: 0, text, score: 1.0, by: Vec::new() }
}

fn found(hits: Vec<CollectionHit>) -> Sources {
    Sources { collection: "c".to_owned(), name: "Tea".to_owned(), first: 1, hits, words_only: None, error: None }
}

#[test]
fn passages_have_numbers_and_places() {
    let hits = vec![
        hit(PartPlace::Page { number: 3 }, "Steep it."),
        hit(PartPlace::Slide { number: 4 }, "```"),
        hit(PartPlace::Sheet { name: "कीमतें".to_owned() }, "a"),
        hit(PartPlace::Heading { text: "Green\n tea".to_owned() }, "b"),
        hit(PartPlace::Whole, "c"),
    ];
    let text = text(&found(hits));
    let (first, passages) = text.split_once("\n\n").expect("a first line");
    assert!(first.contains("“Tea”") && first.contains("[1]"), "{first}");
    let expected = "[1] tea.pdf, page 3:\n```\nSteep it.\n```\n\n[2] tea.pdf, slide 4:\n````\n```\n````\n\n\
        [3] tea.pdf, sheet “कीमतें”:\n```\na\n```\n\n[4] tea.pdf, section “Green tea”:\n```\nb\n```\n\n\
        [5] tea.pdf:\n```\nc\n```\n\n";
    assert_eq!(passages, expected);
}

#[test]
fn nothing_found_is_reported_and_a_failure_is_not() {
    assert!(text(&found(Vec::new())).contains("found no passage"), "the model can report it");
    let failed = Sources { error: Some(ErrorBody::text("no such collection")), ..found(Vec::new()) };
    assert_eq!(text(&failed), "", "the interface reports it");
}
