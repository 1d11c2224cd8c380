//! The pictures of a sequence: which rows can be computed next, and their embeddings.

use cairn_tensor::Input;

use super::Sequence;
use crate::picture::{self, PictureId, PictureRows, PromptPicture, SequencePicture};

impl Sequence {
    /// Finds the pictures of the history, and the keys of all its rows.
    pub(super) fn read_history(&mut self) {
        let spans = picture::spans(&self.history);
        self.pictures = spans.into_iter().map(|span| SequencePicture { span, rows: None }).collect();
        self.keys.clear();
        picture::extend_keys(&mut self.keys, &self.history, &self.job.request.pictures, self.tower.as_ref());
        self.read_input_keys();
    }

    /// The first picture with rows that are not computed and have no embeddings.
    pub(crate) fn next_picture(&self) -> Option<&PromptPicture> {
        let next =
            self.pictures.iter().find(|picture| picture.span.slots.end > self.computed && picture.rows.is_none())?;
        self.job.request.pictures.get(next.span.index)
    }

    /// Identity of that picture.
    pub(crate) fn next_picture_id(&self) -> Option<PictureId> {
        self.next_picture().map(|picture| PictureId::new(picture.identity(), self.scope()))
    }

    /// Sets the embeddings of all uncomputed occurrences of a picture of the request's scope.
    pub(crate) fn set_picture_rows(&mut self, id: &PictureId, rows: &PictureRows) {
        if !id.is_in(self.scope()) {
            return;
        }
        let (computed, pictures) = (self.computed, &self.job.request.pictures);
        let is_same = |picture: &SequencePicture| {
            let content = pictures.get(picture.span.index);
            picture.span.slots.end > computed && content.is_some_and(|content| content.identity() == id.content)
        };
        self.pictures
            .iter_mut()
            .filter(|picture| is_same(picture))
            .for_each(|picture| picture.rows = Some(rows.clone()));
    }

    /// Drops the embeddings of pictures that are computed.
    pub(super) fn drop_picture_rows(&mut self) {
        let computed = self.computed;
        let done = self.pictures.iter_mut().filter(|picture| picture.span.slots.end <= computed);
        done.for_each(|picture| picture.rows = None);
    }

    /// Number of pending rows for a step that has time for `limit` and room for `most` rows. The rest of a picture is not divided
    /// if its rows attend to each other. A picture without embeddings ends the part.
    pub(crate) fn part(&self, limit: usize, most: usize) -> usize {
        let pending = self.pending().len();
        let mut rows = pending.min(limit).min(most);
        if rows == 0 || self.lacks_input() {
            return 0;
        }
        for picture in self.pictures.iter().filter(|picture| picture.span.slots.end > self.computed) {
            let first = picture.span.slots.start.saturating_sub(self.computed);
            let end = picture.span.slots.end - self.computed;
            if first >= rows {
                break;
            }
            if picture.rows.is_none() {
                return first;
            }
            let content = self.job.request.pictures.get(picture.span.index);
            if end > rows {
                if content.is_some_and(PromptPicture::is_divisible) {
                    break;
                }
                rows = match first {
                    0 if end <= most => end,
                    first => first,
                };
                break;
            }
        }
        rows
    }

    /// Whether the next row can be computed: it is a token, or its picture is encoded.
    pub(crate) fn has_next_row(&self) -> bool {
        self.part(1, usize::MAX) > 0
    }

    /// The position of the row at a slot.
    pub(crate) fn position(&self, slot: usize) -> [u32; 4] {
        if self.input_tokens() > 0 {
            return cairn_models::decoder_position(slot as u32, self.input_tokens() as u32);
        }
        let content = |picture: &SequencePicture| self.job.request.pictures.get(picture.span.index);
        picture::position(slot, self.pictures.iter().map(|picture| (&picture.span.slots, content(picture))))
    }

    /// The input of the row at a slot, with its embedding appended to those of the batch, and the end of the slots that the row
    /// attends to.
    pub(crate) fn row_input(&self, slot: usize, embeddings: &mut Vec<f32>) -> (Input, usize) {
        let found = self.pictures.iter().find(|picture| picture.span.slots.contains(&slot));
        let Some((span, rows)) = found.and_then(|picture| Some((&picture.span, picture.rows.as_ref()?))) else {
            return (Input::Token(self.history[slot]), slot + 1);
        };
        let width = rows.len() / span.slots.len();
        let input = Input::Embedding((embeddings.len() / width) as u32);
        embeddings.extend_from_slice(&rows[(slot - span.slots.start) * width..][..width]);
        let is_causal = self.job.request.pictures.get(span.index).is_some_and(PromptPicture::is_divisible);
        (input, if is_causal { slot + 1 } else { span.slots.end })
    }
}
