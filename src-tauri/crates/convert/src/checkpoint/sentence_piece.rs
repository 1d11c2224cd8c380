//! Reader of a SentencePiece model, `tokenizer.model` or `spiece.model`: a protocol buffer.
//!
//! Messages and numbers of fields: `ModelProto` in
//! <https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto>. Wire format:
//! <https://protobuf.dev/programming-guides/encoding>.

use super::tokenizer::MAX_TOKENS;

/// Kinds of pieces, which GGUF numbers in the same way.
pub(super) const NORMAL: i32 = 1;
pub(super) const USER_DEFINED: i32 = 4;

/// Types of models, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unigram = 1,
    BytePairs = 2,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Unigram => "Unigram",
            Self::BytePairs => "BPE",
        }
    }
}

/// Pieces by id, and how texts are normalised.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) pieces: Vec<Piece>,
    /// Replacements of characters, in SentencePiece's form.
    pub(super) charsmap: Vec<u8>,
    /// Whether a blank is added before a text.
    pub(super) adds_prefix: bool,
    /// Whether blanks at the ends of a text are removed, and runs of others become one.
    pub(super) merges_blanks: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self { pieces: Vec::new(), charsmap: Vec::new(), adds_prefix: true, merges_blanks: true }
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: i32,
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    /// A text, a message or a list.
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
    Fixed64,
}

/// Reader of the fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the next field with its number, or `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let field = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => {
                self.take(8)?;
                Field::Fixed64
            }
            2 => {
                let length = self.number()?;
                Field::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => Field::Fixed32(self.take(4)?.try_into().expect("four bytes")),
            other => return Err(format!("a field has the unknown wire type {other}")),
        };
        Ok(Some((tag >> 3, field)))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("a field ends beyond the end of the file")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a number in groups of seven bits, lowest first.
    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let &[byte] = self.take(1)? else { unreachable!("one byte was requested") };
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than ten bytes".to_owned())
    }
}

/// Reads a model of this kind.
pub(super) fn read(bytes: &[u8], expected: Kind) -> Result<Model, String> {
    let (mut model, mut kind) = (Model::default(), Kind::Unigram as u64);
    let mut fields = Fields(bytes);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(_)) if model.pieces.len() == MAX_TOKENS => {
                return Err(format!("it has more than {MAX_TOKENS} tokens"));
            }
            (1, Field::Bytes(message)) => model.pieces.push(piece(message)?),
            (2, Field::Bytes(trainer)) => {
                let mut fields = Fields(trainer);
                while let Some((number, field)) = fields.next()? {
                    if let (3, Field::Number(number)) = (number, field) {
                        kind = number;
                    }
                }
            }
            (3, Field::Bytes(normalizer)) => normalize(normalizer, &mut model)?,
            _ => {}
        }
    }
    if kind != expected as u64 {
        return Err(format!("the model type is {kind}, not {} ({})", expected as u64, expected.name()));
    }
    if model.pieces.is_empty() { Err("it has no vocabulary".to_owned()) } else { Ok(model) }
}

fn normalize(message: &[u8], model: &mut Model) -> Result<(), String> {
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (2, Field::Bytes(charsmap)) => model.charsmap = charsmap.to_vec(),
            (3, Field::Number(flag)) => model.adds_prefix = flag != 0,
            (4, Field::Number(flag)) => model.merges_blanks = flag != 0,
            _ => {}
        }
    }
    Ok(())
}

fn piece(message: &[u8]) -> Result<Piece, String> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: NORMAL };
    let mut fields = Fields(message);
    while let Some((number, field)) = fields.next()? {
        match (number, field) {
            (1, Field::Bytes(text)) => {
                piece.text = str::from_utf8(text).map_err(|_| "a token is not valid UTF-8")?.to_owned();
            }
            (2, Field::Fixed32(score)) => piece.score = f32::from_le_bytes(score),
            (3, Field::Number(kind)) => {
                let kind = i32::try_from(kind).ok().filter(|kind| (1..=6).contains(kind));
                piece.kind = kind.ok_or("a token has an unknown kind")?;
            }
            _ => {}
        }
    }
    if !piece.score.is_finite() {
        return Err(format!("the score of the token {:?} is {}", piece.text, piece.score));
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, contents: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, contents.len() as u8], contents].concat()
    }

    fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
        let fields =
            [bytes(1, text.as_bytes()), [&[2 << 3 | 5][..], &score.to_le_bytes()].concat(), vec![3 << 3, kind]];
        bytes(1, &fields.concat())
    }

    #[test]
    fn pieces_are_read_with_scores_and_kinds() {
        let trainer = bytes(2, &[10 << 3, 0x80, 1, 3 << 3, 2]);
        let model = [piece("<unk>", 0.0, 2), bytes(1, &bytes(1, b"a")), trainer, piece("b", -1.5, 6), bytes(3, b"")];
        let model = read(&model.concat(), Kind::BytePairs).expect("a valid model");
        let found: Vec<(&str, f32, i32)> =
            model.pieces.iter().map(|piece| (piece.text.as_str(), piece.score, piece.kind)).collect();
        assert_eq!(found, [("<unk>", 0.0, 2), ("a", 0.0, 1), ("b", -1.5, 6)]);
    }

    #[test]
    fn normalizer_of_a_unigram_model_is_read() {
        let normal = [piece("a", 0.0, 1), bytes(2, &[3 << 3, 1])].concat();
        let model = |normalizer: &[u8]| {
            let bytes = [&normal[..], &bytes(3, normalizer)].concat();
            let Model { charsmap, adds_prefix, merges_blanks, .. } =
                read(&bytes, Kind::Unigram).expect("a valid model");
            (charsmap, adds_prefix, merges_blanks)
        };
        assert_eq!(model(&bytes(1, b"nmt_nfkc")), (Vec::new(), true, true), "the defaults");
        let (charsmap, flags) = (bytes(2, &[7, 8]), [3 << 3, 0, 4 << 3, 0]);
        assert_eq!(model(&[&charsmap[..], &flags].concat()), (vec![7, 8], false, false));
        assert!(read(&piece("a", 0.0, 1), Kind::Unigram).is_ok(), "the default type");
    }

    #[test]
    fn damaged_models_are_refused() {
        let trainer = bytes(2, &[3 << 3, 2]);
        let check = |model: &[Vec<u8>], expected: &str| {
            let error = read(&model.concat(), Kind::BytePairs).expect_err(expected);
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        };
        check(&[], "the model type is 1, not 2");
        check(&[bytes(2, &[3 << 3, 1])], "the model type is 1, not 2");
        check(std::slice::from_ref(&trainer), "it has no vocabulary");
        check(&[trainer.clone(), vec![1 << 3 | 2, 9, 0]], "beyond the end");
        check(
            &[trainer.clone(), vec![1 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]],
            "beyond the end",
        );
        check(&[trainer.clone(), [vec![1 << 3], vec![0xff; 10]].concat()], "more than ten bytes");
        check(&[trainer.clone(), vec![1 << 3 | 3]], "unknown wire type 3");
        check(&[trainer.clone(), piece("a", f32::NAN, 1)], "is NaN");
        check(&[trainer.clone(), piece("a", 0.0, 9)], "unknown kind");
        check(&[trainer, bytes(1, &bytes(1, &[0xff]))], "not valid UTF-8");
    }
}
