//! Pages: runs the operators of text and joins the shown strings to lines.
//!
//! A string on the same baseline as the one before continues the line, with a space if there is a gap between them. Another
//! baseline begins a line, and a large distance a paragraph.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use lopdf::content::{Content, Operation};
use lopdf::{DecompressError, Dictionary, Document, Object, ObjectId};

use super::font::Font;
use crate::parts::Parts;
use crate::{Error, Limits};

/// Forms inside each other.
const MAX_FORMS: usize = 12;
/// Saved graphics states.
const MAX_SAVED: usize = 512;
/// Distances in parts of the font's size.
const SPACE_GAP: f32 = 0.18;
const LINE_GAP: f32 = 0.4;
const PARAGRAPH_GAP: f32 = 1.9;

/// Bytes that the contents of pages may still inflate.
pub(super) struct Budget {
    left_bytes: u64,
    limit_bytes: u64,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { left_bytes: limits.inflated_bytes, limit_bytes: limits.inflated_bytes }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.left_bytes.checked_sub(bytes as u64);
        self.left_bytes = left.ok_or(Error::InflatesTooMuch { limit_bytes: self.limit_bytes })?;
        Ok(())
    }

    fn stream_bytes(&self) -> usize {
        self.left_bytes.min(super::MAX_STREAM_BYTES) as usize
    }
}

/// Reader of the pages of a document. Fonts are read once.
pub(super) struct Reader<'a> {
    document: &'a Document,
    budget: Budget,
    /// Fonts by the address of their dictionary in the document.
    fonts: HashMap<*const Dictionary, Rc<Font>>,
}

type Fonts = BTreeMap<Vec<u8>, Rc<Font>>;

impl<'a> Reader<'a> {
    pub(super) fn new(document: &'a Document, budget: Budget) -> Self {
        Self { document, budget, fonts: HashMap::new() }
    }

    /// Returns the text of a page. A page with damaged contents has the text before the damage.
    pub(super) fn page(&mut self, page: ObjectId, parts: &Parts<'_>) -> Result<String, Error> {
        let content = match self.document.get_page_content_with_limit(page, self.budget.stream_bytes()) {
            Err(lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => return Err(self.exceeded()),
            other => other.unwrap_or_default(),
        };
        self.budget.spend(content.len())?;
        let document = self.document;
        let fonts = document.get_page_fonts(page).unwrap_or_default();
        let fonts = self.fonts_of(fonts.into_iter())?;
        let (direct, inherited) = document.get_page_resources(page).unwrap_or_default();
        let inherited = inherited.into_iter().filter_map(|id| document.get_dictionary(id).ok());
        let resources: Vec<&Dictionary> = direct.into_iter().chain(inherited).collect();
        let mut text = Text::default();
        self.run(&content, &Scope { fonts, resources }, &mut text, parts, &mut Vec::new())?;
        Ok(text.written)
    }

    fn exceeded(&self) -> Error {
        Error::InflatesTooMuch { limit_bytes: self.budget.limit_bytes }
    }

    fn fonts_of<'d>(&mut self, named: impl Iterator<Item = (Vec<u8>, &'d Dictionary)>) -> Result<Fonts, Error> {
        let mut fonts = Fonts::new();
        for (name, dictionary) in named {
            let key = std::ptr::from_ref(dictionary);
            let font = match self.fonts.get(&key) {
                Some(font) => Rc::clone(font),
                None => {
                    let read = Font::read(dictionary, self.document, self.budget.stream_bytes());
                    let font = match read {
                        Err(lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
                            return Err(self.exceeded());
                        }
                        other => Rc::new(other.unwrap_or_else(|_| Font::unknown())),
                    };
                    self.fonts.insert(key, Rc::clone(&font));
                    font
                }
            };
            fonts.insert(name, font);
        }
        Ok(fonts)
    }

    fn run(
        &mut self,
        content: &[u8],
        scope: &Scope<'a>,
        text: &mut Text,
        parts: &Parts<'_>,
        forms: &mut Vec<ObjectId>,
    ) -> Result<(), Error> {
        let saved = text.saved.len();
        for operation in Content::decode_iter(content) {
            let Ok(operation) = operation else { break };
            match operation.operator.as_str() {
                "Do" => self.form(&operation, scope, text, parts, forms)?,
                "Tf" => {
                    let name = operation.operands.first().and_then(|name| name.as_name().ok());
                    text.state.font = name.and_then(|name| scope.fonts.get(name)).map(Rc::clone);
                    text.state.size = operand(&operation, 1);
                }
                _ => text.operate(&operation),
            }
            parts.check_chars(text.written.len() / 4)?;
        }
        text.saved.truncate(saved);
        Ok(())
    }

    /// Runs a form, which has contents and resources of its own.
    fn form(
        &mut self,
        operation: &Operation,
        scope: &Scope<'a>,
        text: &mut Text,
        parts: &Parts<'_>,
        forms: &mut Vec<ObjectId>,
    ) -> Result<(), Error> {
        let document = self.document;
        let Some(Ok(name)) = operation.operands.first().map(Object::as_name) else { return Ok(()) };
        let id = scope.resources.iter().find_map(|resources| {
            let objects = resources.get_deref(b"XObject", document).ok()?.as_dict().ok()?;
            objects.get(name).ok()?.as_reference().ok()
        });
        let Some(id) = id.filter(|id| !forms.contains(id) && forms.len() < MAX_FORMS) else { return Ok(()) };
        let Ok(stream) = document.get_object(id).and_then(Object::as_stream) else { return Ok(()) };
        if stream.dict.get(b"Subtype").and_then(Object::as_name).ok() != Some(b"Form") {
            return Ok(());
        }
        let content = match stream.get_plain_content_with_limit(self.budget.stream_bytes()) {
            Err(lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => return Err(self.exceeded()),
            other => other.unwrap_or_default(),
        };
        // A form that many pages repeat is inflated each time.
        self.budget.spend(content.len())?;
        let own = stream.dict.get_deref(b"Resources", document).and_then(Object::as_dict).ok();
        let mut fonts = scope.fonts.clone();
        if let Some(named) = own.and_then(|own| own.get_deref(b"Font", document).ok()?.as_dict().ok()) {
            let mut seen = HashSet::new();
            let named = named.iter().filter_map(|(name, font)| {
                let font = document.dereference(font).ok()?.1.as_dict().ok()?;
                seen.insert(name.clone()).then(|| (name.clone(), font))
            });
            fonts.extend(self.fonts_of(named.collect::<Vec<_>>().into_iter())?);
        }
        let resources = own.map_or_else(|| scope.resources.clone(), |own| vec![own]);
        let outer = (text.matrix, text.state.clone());
        let matrix = stream.dict.get_deref(b"Matrix", document).and_then(Object::as_array).ok();
        if let Some(matrix) = matrix.and_then(|numbers| Matrix::from_numbers(numbers)) {
            text.matrix = matrix.times(text.matrix);
        }
        forms.push(id);
        let ran = self.run(&content, &Scope { fonts, resources }, text, parts, forms);
        forms.pop();
        (text.matrix, text.state) = outer;
        ran
    }
}

/// Names that a content stream may use.
struct Scope<'a> {
    fonts: Fonts,
    resources: Vec<&'a Dictionary>,
}

/// Returns a number among the operands, or 0.
fn operand(operation: &Operation, at: usize) -> f32 {
    operation
        .operands
        .get(at)
        .and_then(|number| number.as_float().ok())
        .filter(|number| number.is_finite())
        .unwrap_or(0.0)
}

/// An affine transformation, as in ISO 32000-1, 8.3.3.
#[derive(Debug, Clone, Copy)]
struct Matrix([f32; 6]);

impl Matrix {
    const IDENTITY: Self = Self([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    fn from_numbers(numbers: &[Object]) -> Option<Self> {
        let mut matrix = [0.0; 6];
        for (at, cell) in matrix.iter_mut().enumerate() {
            *cell = numbers.get(at)?.as_float().ok().filter(|number| number.is_finite())?;
        }
        Some(Self(matrix))
    }

    fn shift(x: f32, y: f32) -> Self {
        Self([1.0, 0.0, 0.0, 1.0, x, y])
    }

    /// Returns the transformation that applies this one first.
    fn times(self, next: Self) -> Self {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (self.0, next.0);
        Self([a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + l])
    }
}

/// State that `q` saves and `Q` restores.
#[derive(Clone)]
struct TextState {
    font: Option<Rc<Font>>,
    size: f32,
    char_space: f32,
    word_space: f32,
    leading: f32,
    scale: f32,
}

/// The text of a page and the state of its operators.
struct Text {
    written: String,
    matrix: Matrix,
    state: TextState,
    saved: Vec<(Matrix, TextState)>,
    line: Matrix,
    at: Matrix,
    /// Where the last string ended.
    end: Option<(f32, f32)>,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            written: String::new(),
            matrix: Matrix::IDENTITY,
            state: TextState { font: None, size: 0.0, char_space: 0.0, word_space: 0.0, leading: 0.0, scale: 1.0 },
            saved: Vec::new(),
            line: Matrix::IDENTITY,
            at: Matrix::IDENTITY,
            end: None,
        }
    }
}

impl Text {
    fn operate(&mut self, operation: &Operation) {
        let number = |at| operand(operation, at);
        match operation.operator.as_str() {
            "q" if self.saved.len() < MAX_SAVED => self.saved.push((self.matrix, self.state.clone())),
            "Q" => {
                if let Some(saved) = self.saved.pop() {
                    (self.matrix, self.state) = saved;
                }
            }
            "cm" => {
                if let Some(matrix) = Matrix::from_numbers(&operation.operands) {
                    self.matrix = matrix.times(self.matrix);
                }
            }
            "BT" => (self.line, self.at) = (Matrix::IDENTITY, Matrix::IDENTITY),
            "Tc" => self.state.char_space = number(0),
            "Tw" => self.state.word_space = number(0),
            "Tz" => self.state.scale = number(0) / 100.0,
            "TL" => self.state.leading = number(0),
            "Td" => self.move_line(number(0), number(1)),
            "TD" => {
                self.state.leading = -number(1);
                self.move_line(number(0), number(1));
            }
            "Tm" => {
                if let Some(matrix) = Matrix::from_numbers(&operation.operands) {
                    (self.line, self.at) = (matrix, matrix);
                }
            }
            "T*" => self.move_line(0.0, -self.state.leading),
            "Tj" => self.show_operand(operation.operands.first()),
            "'" => {
                self.move_line(0.0, -self.state.leading);
                self.show_operand(operation.operands.first());
            }
            "\"" => {
                self.state.word_space = number(0);
                self.state.char_space = number(1);
                self.move_line(0.0, -self.state.leading);
                self.show_operand(operation.operands.get(2));
            }
            "TJ" => {
                let items = operation.operands.first().and_then(|items| items.as_array().ok());
                for item in items.into_iter().flatten() {
                    match item {
                        Object::String(..) => self.show_operand(Some(item)),
                        number => {
                            let shift = number.as_float().unwrap_or(0.0) / 1000.0 * self.state.size * self.state.scale;
                            self.at = Matrix::shift(-shift, 0.0).times(self.at);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn move_line(&mut self, x: f32, y: f32) {
        self.line = Matrix::shift(x, y).times(self.line);
        self.at = self.line;
    }

    fn show_operand(&mut self, shown: Option<&Object>) {
        if let Some(Object::String(bytes, _)) = shown {
            self.show(bytes);
        }
    }

    /// Shows a string: adds its text, and a space, a line or a paragraph before it.
    fn show(&mut self, bytes: &[u8]) {
        let Some(font) = self.state.font.clone() else { return };
        let Matrix([a, b, c, d, x, y]) = self.at.times(self.matrix);
        let length = a.hypot(b);
        let size = self.state.size.abs() * if length > 0.0 { length } else { c.hypot(d) };
        if let Some((end_x, end_y)) = self.end.filter(|_| size > 0.0 && length > 0.0 && !self.written.is_empty()) {
            let (right, up) = (a / length, b / length);
            let along = ((x - end_x) * right + (y - end_y) * up) / size;
            let across = ((y - end_y) * right - (x - end_x) * up).abs() / size;
            let blank = self.written.ends_with([' ', '\n']);
            match () {
                () if across > PARAGRAPH_GAP => self.written.push_str("\n\n"),
                () if across > LINE_GAP => self.written.push('\n'),
                () if !blank && !(-1.0..=SPACE_GAP).contains(&along) => self.written.push(' '),
                () => {}
            }
        }
        font.decode(bytes, &mut self.written);
        let (codes, spaces, widths) = font.measure(bytes);
        let width = widths / 1000.0 * self.state.size
            + codes as f32 * self.state.char_space
            + spaces as f32 * self.state.word_space;
        self.at = Matrix::shift(width * self.state.scale, 0.0).times(self.at);
        let Matrix([.., x, y]) = self.at.times(self.matrix);
        self.end = Some((x, y));
    }
}
