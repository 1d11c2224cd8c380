//! A model that recites texts: each token has one successor, whatever came before, so that every prompt that ends with the
//! first token of a script gets the script as its answer.
//!
//! The stream of a token is one-hot, attention and feed-forward blocks add nothing, and the output matrix maps each token to
//! the next one. A chat template chooses the script, for example by the role of the last message.

use std::collections::HashSet;

use cairn_gguf::{DType, Writer};

use crate::presets::tiny_llama;
use crate::spec::ModelSpec;
use crate::vocabulary::{SPECIAL_TOKENS, Vocabulary, alphabet_text};

/// Elements of the stream, and the most tokens of the vocabulary.
const WIDTH: u64 = 1024;
/// Tokens of the context. Prompts are long because most tokens are bytes.
const CONTEXT: u32 = 1 << 15;
/// Characters of a token of a script.
const PIECE_CHARS: usize = 3;
/// Weight of a token's successor. The normalised one-hot stream is the square root of [`WIDTH`], so that the logit is 160.
const WEIGHT: f32 = 5.0;

/// The only merge of the vocabulary, which must have one.
const MERGED: [&str; 2] = ["q", "q"];

/// A text that the model recites.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The control token that begins the script. A template writes it at the end of a prompt.
    pub begin: &'a str,
    /// The answer.
    pub text: &'a str,
}

/// A template in the style of Hermes. The last message chooses the script.
const CALLER_TEMPLATE: &str = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}\
    {% for message in messages %}<|im_start|>{{ message.role }} {{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>{% endfor %}\
    {% if messages[-1].role == 'tool' %}<|script1|>{% else %}<|script0|>{% endif %}";

/// The first answer of [`tool_caller`]: a text and two calls.
pub const CALLER_ANSWER: &str = "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\", \
    \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";

/// The answer of [`tool_caller`] to the result of a tool.
pub const CALLER_RESULT: &str = "It is 3 degrees.";

/// Returns the file of a model that calls the tools `weather` and `clock`, and answers after the result of a tool.
pub fn tool_caller() -> Vec<u8> {
    let script = |begin, text| Script { begin, text };
    scripted(CALLER_TEMPLATE, &[script("<|script0|>", CALLER_ANSWER), script("<|script1|>", CALLER_RESULT)], &[])
}

/// Returns the file of a model that recites scripts. `control` are texts in scripts that are control tokens; each occurs
/// once in all scripts.
///
/// # Panics
/// If the scripts are too long for the vocabulary.
pub fn scripted(template: &str, scripts: &[Script<'_>], control: &[&str]) -> Vec<u8> {
    let mut tokens = Tokens::new();
    for script in scripts {
        tokens.add(script, control);
    }
    let vocab = tokens.texts.len() as u64;
    assert!(vocab <= WIDTH, "the scripts need {vocab} tokens, more than {WIDTH}");
    let spec =
        ModelSpec { name: "scripted".to_owned(), layers: 1, width: WIDTH, vocab, context: CONTEXT, ..tiny_llama() };
    let metadata = crate::metadata(&spec);
    let mut writer = Writer::default();
    for (key, value) in metadata.iter() {
        writer.set(key, value.clone());
    }
    tokens.describe(&mut writer);
    writer.set("tokenizer.chat_template", template);
    let required = cairn_models::required_tensors(&metadata, &|name| name == "output.weight");
    for tensor in required.expect("the metadata of a spec are those of its family") {
        let bytes = tokens.weights(&tensor.name, &tensor.dims);
        writer
            .tensor(&tensor.name, DType::F32, &tensor.dims, bytes)
            .expect("the bytes are as many as the elements need");
    }
    writer.finish()
}

/// The vocabulary, with the successor of each token.
struct Tokens {
    /// Texts in the byte alphabet of GPT-2.
    texts: Vec<String>,
    is_control: Vec<bool>,
    next: Vec<usize>,
    names: HashSet<String>,
}

impl Tokens {
    /// The bytes, the special tokens and [`MERGED`], all followed by the end token.
    fn new() -> Self {
        let base = Vocabulary::new(crate::vocabulary::MIN_TOKENS);
        let is_control = (0..base.tokens.len()).map(|id| id >= base.first_special as usize).collect();
        let end = base.special(SPECIAL_TOKENS[2]).expect("a special token") as usize;
        let names = base.tokens.iter().cloned().collect();
        let mut tokens = Self { next: vec![end; base.tokens.len()], texts: base.tokens, is_control, names };
        tokens.push(MERGED.concat(), false);
        tokens
    }

    fn end(&self) -> usize {
        256 + 2
    }

    fn push(&mut self, text: String, is_control: bool) -> usize {
        assert!(self.names.insert(text.clone()), "the token {text:?} occurs twice");
        self.texts.push(text);
        self.is_control.push(is_control);
        self.next.push(self.end());
        self.texts.len() - 1
    }

    fn add(&mut self, script: &Script<'_>, control: &[&str]) {
        let mut last = self.push(script.begin.to_owned(), true);
        let mut rest = script.text;
        while !rest.is_empty() {
            let (piece, is_control) = self.piece(rest, control);
            let text = if is_control { piece.to_owned() } else { alphabet_text(piece) };
            let token = self.push(text, is_control);
            self.next[last] = token;
            last = token;
            rest = &rest[piece.len()..];
        }
    }

    /// Returns the beginning of a text that becomes a token: a control token, or characters up to the next one. Grows until no
    /// token has the same text, or that of a rest which must become one token.
    fn piece<'t>(&self, rest: &'t str, control: &[&str]) -> (&'t str, bool) {
        if let Some(tag) = control.iter().find(|tag| rest.starts_with(**tag)) {
            return (&rest[..tag.len()], true);
        }
        let limit = control.iter().filter_map(|tag| rest.find(tag)).min().unwrap_or(rest.len());
        // The rest is empty or long enough for a token of its own, because every byte is a token already.
        let is_unused = |text: &str| !self.names.contains(&alphabet_text(text));
        let leaves_enough = |end: &usize| {
            *end + 2 * PIECE_CHARS <= limit || (*end + PIECE_CHARS <= limit && is_unused(&rest[*end..limit]))
        };
        let mut ends = rest.char_indices().map(|(at, _)| at).skip(PIECE_CHARS).filter(leaves_enough);
        let end = ends.find(|end| is_unused(&rest[..*end]));
        (&rest[..end.unwrap_or(limit)], false)
    }

    /// Writes the tokenizer's keys. Prompts are bytes, control tokens and [`MERGED`].
    fn describe(&self, writer: &mut Writer<'_>) {
        let kinds: Vec<i32> = self.is_control.iter().map(|is_control| if *is_control { 3 } else { 1 }).collect();
        writer.set("tokenizer.ggml.model", "gpt2");
        writer.set("tokenizer.ggml.pre", "llama-bpe");
        writer.set("tokenizer.ggml.tokens", self.texts.clone());
        writer.set("tokenizer.ggml.token_type", kinds);
        writer.set("tokenizer.ggml.merges", vec![MERGED.join(" ")]);
        writer.set("tokenizer.ggml.bos_token_id", 256u32);
        writer.set("tokenizer.ggml.eos_token_id", self.end() as u32);
        writer.set("tokenizer.ggml.add_bos_token", false);
    }

    fn weights(&self, name: &str, dims: &[u64]) -> Vec<u8> {
        let elements: u64 = dims.iter().product();
        let mut values = vec![0f32; elements as usize];
        match name {
            "token_embd.weight" => (0..self.texts.len()).for_each(|token| values[token * WIDTH as usize + token] = 1.0),
            "output.weight" => {
                for (token, next) in self.next.iter().enumerate() {
                    values[next * WIDTH as usize + token] = WEIGHT;
                }
            }
            // Norms.
            _ if dims.len() == 1 => values.fill(1.0),
            // The other matrices are zero.
            _ => {}
        }
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }
}
