//! Unigram vocabularies of SentencePiece: `spiece.model`, or `tokenizer.json`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cairn_gguf::{Array, Metadata, Value};

use super::description::{Description, TOKENIZER};
use super::error::{ConvertError, invalid, unsupported};
use super::sentence_piece::{self, Kind, Model, NORMAL, Piece, USER_DEFINED};
use super::special_tokens;
use super::tokenizer::{TokenizerConfig, TokenizerFile};
use super::vocabulary::{ADDED_SCORE, CONTROL, Tokens, UNKNOWN, count};

/// SentencePiece model of T5.
const PIECES: &str = "spiece.model";
/// Beginning of the names of tokens that represent a part of a text. Texts contain them, and answers show them.
const SENTINEL: &str = "<extra_id_";
/// Sentinels of a tokenizer without a description.
const SENTINELS: u64 = 100;

/// Adds the vocabulary of a checkpoint.
pub(super) fn add(description: &Description<'_>, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let (config, tokenizer) = (description.tokenizer_config()?, description.tokenizer()?);
    let model = match (description.pieces(PIECES)?, &tokenizer) {
        (Some(bytes), _) => sentence_piece::read(&bytes, Kind::Unigram).map_err(|reason| invalid(PIECES, reason))?,
        (None, Some(tokenizer)) => model(tokenizer)?,
        (None, None) => return Err(ConvertError::Missing { name: TOKENIZER }),
    };
    let Tokens { texts, kinds, scores } = tokens(description, &config, tokenizer.as_ref(), &model.pieces)?;
    let post_processor = tokenizer.as_ref().and_then(|tokenizer| tokenizer.post_processor.as_ref());
    special_tokens::add(description, &config, post_processor, &texts, metadata)?;
    for (key, flag) in [("add_bos_token", false), ("add_eos_token", true)] {
        let key = format!("tokenizer.ggml.{key}");
        if metadata.get(&key).is_none() {
            metadata.set(key, flag);
        }
    }
    metadata.set("tokenizer.ggml.model", "t5");
    metadata.set("tokenizer.ggml.pre", "default");
    metadata.set("tokenizer.ggml.tokens", texts);
    metadata.set("tokenizer.ggml.token_type", kinds);
    metadata.set("tokenizer.ggml.scores", scores);
    metadata.set("tokenizer.ggml.add_space_prefix", model.adds_prefix);
    metadata.set("tokenizer.ggml.remove_extra_whitespaces", model.merges_blanks);
    if !model.charsmap.is_empty() {
        metadata.set("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::U8(model.charsmap)));
    }
    Ok(())
}

/// Returns the tokens by id: pieces, added tokens, and padding.
fn tokens(
    description: &Description<'_>,
    config: &TokenizerConfig,
    tokenizer: Option<&TokenizerFile>,
    pieces: &[Piece],
) -> Result<Tokens, ConvertError> {
    let mut tokens = Tokens::padding(count(description, pieces.len())?);
    let rows = tokens.texts.len() as u64;
    for (id, piece) in pieces.iter().take(rows as usize).enumerate() {
        tokens.set(id, &piece.text, piece.kind, piece.score);
    }
    let of_file = tokenizer.map_or(&[][..], |tokenizer| &tokenizer.added_tokens.0);
    for token in of_file.iter().chain(&config.added_tokens_decoder.0).filter(|token| token.id < rows) {
        let id = token.id as usize;
        if token.content.starts_with(SENTINEL) {
            tokens.set(id, &token.content, USER_DEFINED, ADDED_SCORE);
        } else if id >= pieces.len() {
            tokens.set_added(token);
        } else if !matches!(tokens.kinds[id], CONTROL | UNKNOWN) {
            // Its score is that of the piece.
            tokens.kinds[id] = if token.special { CONTROL } else { USER_DEFINED };
        }
    }
    // Without a list of added tokens, the sentinels follow the pieces, the last one first.
    let (first, sentinels) = (pieces.len() as u64, config.extra_ids.unwrap_or(SENTINELS));
    let has_sentinels = tokens.texts.iter().any(|text| text.starts_with(SENTINEL));
    if let Some(end) = first.checked_add(sentinels).filter(|&end| !has_sentinels && end <= rows) {
        for (id, number) in (first..end).zip((0..sentinels).rev()) {
            tokens.set(id as usize, &format!("{SENTINEL}{number}>"), USER_DEFINED, ADDED_SCORE);
        }
    }
    Ok(tokens)
}

/// Returns the contents of a `tokenizer.json` in the form of a SentencePiece model.
fn model(tokenizer: &TokenizerFile) -> Result<Model, ConvertError> {
    let model = &tokenizer.model;
    if let Some(kind) = model.kind.as_deref().filter(|kind| *kind != "Unigram") {
        return Err(invalid(TOKENIZER, format!("the model is {kind:?}, not Unigram")));
    }
    if model.vocab.scored.is_empty() {
        return Err(invalid(TOKENIZER, "it has no vocabulary with scores"));
    }
    let kind = |id: usize| if model.unk_id == Some(id as u64) { UNKNOWN } else { NORMAL };
    let scored = model.vocab.scored.iter().enumerate();
    let pieces = scored.map(|(id, (text, score))| Piece { text: text.clone(), score: *score, kind: kind(id) });
    let mut converted =
        Model { pieces: pieces.collect(), adds_prefix: false, merges_blanks: false, charsmap: Vec::new() };
    add_normalizer(tokenizer, &mut converted)?;
    add_pre_tokenizer(tokenizer, &mut converted)?;
    Ok(converted)
}

/// Adds the table of characters, and whether blanks are merged.
fn add_normalizer(tokenizer: &TokenizerFile, model: &mut Model) -> Result<(), ConvertError> {
    let Some(normalizer) = &tokenizer.normalizer else { return Ok(()) };
    let mut strips = false;
    for step in normalizer.steps() {
        let regex = step.pattern.as_ref().and_then(|pattern| pattern.regex.as_deref());
        match (step.kind.as_deref(), &step.precompiled_charsmap) {
            (Some("Precompiled"), Some(text)) => {
                let bytes = BASE64_STANDARD.decode(text);
                model.charsmap = bytes.map_err(|error| invalid(TOKENIZER, format!("precompiled_charsmap: {error}")))?;
            }
            (Some("Replace"), _) if regex == Some(" {2,}") => model.merges_blanks = true,
            (Some("Strip"), _) => strips = true,
            (kind, _) => {
                return Err(unsupported(format!("the normalizer {:?} of {TOKENIZER}", kind.unwrap_or_default())));
            }
        }
    }
    // Merged blanks have none at the end of a text. GGUF has no key for blanks that are only removed there.
    if strips && !model.merges_blanks {
        return Err(unsupported(format!("the normalizer \"Strip\" of {TOKENIZER} without merged blanks")));
    }
    Ok(())
}

/// Adds how blanks are written.
fn add_pre_tokenizer(tokenizer: &TokenizerFile, model: &mut Model) -> Result<(), ConvertError> {
    let Some(pre_tokenizer) = &tokenizer.pre_tokenizer else { return Ok(()) };
    for step in pre_tokenizer.steps() {
        match step.kind.as_deref() {
            Some("WhitespaceSplit") => model.merges_blanks = true,
            Some("Metaspace") => model.adds_prefix = step.prepends_blank(),
            other => {
                let other = other.unwrap_or_default();
                return Err(unsupported(format!("the pre_tokenizer {other:?} of a Unigram vocabulary in {TOKENIZER}")));
            }
        }
    }
    Ok(())
}
