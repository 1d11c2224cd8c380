//! The operands of attention: one key/value head, some queries, one span of positions at a time.
//!
//! Softmax over a whole context is computed by spans of [`SPAN_POSITIONS`] absolute positions (Milakov and Gimelshein,
//! arXiv 1805.02867): each span gives its largest score, the sum of `exp(score - largest)` and the values weighted by the
//! same, and spans are merged in ascending order. A span is always computed from scratch, so a result does not depend on
//! where a prefill was cut or which thread took which span.

use cairn_gguf::DType;

/// Types that keys and values may have in pages. Rows of the last two are whole blocks of 32 elements.
pub const KV_TYPES: [DType; 4] = [DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0];

/// Positions of one page of keys and values.
pub const PAGE_POSITIONS: usize = 64;

/// Positions of one span: four pages.
pub const SPAN_POSITIONS: usize = 4 * PAGE_POSITIONS;

/// One key/value head, a block of query rows and one span of absolute positions, computed from scratch.
#[derive(Debug)]
pub struct AttendSpan<'a> {
    /// `[queries, head_dim]`.
    pub q: &'a [f32],
    /// Elements of one head's queries and keys.
    pub head_dim: usize,
    /// Elements of one head's values.
    pub value_dim: usize,
    /// Query rows: those of all query heads that share the key/value head.
    pub queries: usize,
    /// First absolute position that each query attends to, `[queries]`.
    pub first: &'a [u32],
    /// End (exclusive) of the absolute positions that each query attends to, `[queries]`.
    pub until: &'a [u32],
    /// Absolute position of the first slot, a multiple of [`SPAN_POSITIONS`].
    pub span_start: u32,
    /// Type of keys and values, one of [`KV_TYPES`].
    pub dtype: DType,
    /// Keys, four pages of `[64, head_dim]`. A page of which nothing is visible may be empty.
    pub k: [&'a [u8]; 4],
    /// Values, likewise: rows of `value_dim` elements. If they are parts of the keys, each slice begins with the value of its page's
    /// first slot.
    pub v: [&'a [u8]; 4],
    /// Bytes from one value to the next, at least those of a value.
    pub value_stride: usize,
    /// Bytes that the next call of this thread reads first, if they are known. They are only prefetched.
    pub next: &'a [u8],
    /// Factor on the scores.
    pub scale: f32,
    /// `softcap * tanh(score / softcap)` replaces each scaled score; 0 where there is no cap.
    pub softcap: f32,
    /// Added to the scaled scores of each query, by slot of the span; empty if nothing is added. There is no cap then.
    pub bias: &'a [[f32; SPAN_POSITIONS]],
    /// One per thread.
    pub scratch: &'a mut AttendScratch,
    /// Receives the largest score per query; negative infinity where nothing was visible. `[queries]`
    pub max: &'a mut [f32],
    /// Receives the sum of `exp(score - max)`. `[queries]`
    pub sum: &'a mut [f32],
    /// Receives the values weighted by `exp(score - max)`, not yet divided by the sum. `[queries, value_dim]`
    pub acc: &'a mut [f32],
}

impl AttendSpan<'_> {
    /// Checks all lengths.
    ///
    /// # Panics
    /// When the operands do not fit each other.
    pub(crate) fn check(&self) {
        let Self { head_dim, value_dim, queries, dtype, .. } = *self;
        assert!(KV_TYPES.contains(&dtype), "{dtype} is no type of keys and values");
        for dim in [head_dim, value_dim] {
            assert!(dim.is_multiple_of(dtype.block()), "{dim} elements are no whole blocks of {dtype}");
        }
        assert!(self.value_stride >= dtype.row_bytes(value_dim), "values are apart");
        assert_eq!(self.q.len(), queries * head_dim, "queries");
        assert_eq!(self.acc.len(), queries * value_dim, "accumulators");
        assert!(self.bias.is_empty() || self.softcap == 0.0, "scores with a bias have no cap");
        assert!([0, queries].contains(&self.bias.len()), "`bias` has one row per query, or none");
        for (len, what) in
            [(self.first.len(), "first"), (self.until.len(), "until"), (self.max.len(), "max"), (self.sum.len(), "sum")]
        {
            assert_eq!(len, queries, "`{what}` has one element per query");
        }
    }

    /// Bytes of a page of keys.
    pub(crate) fn page_bytes(&self) -> usize {
        PAGE_POSITIONS * self.dtype.row_bytes(self.head_dim)
    }

    /// Bytes of the values of these many slots, from the first value to the end of the last.
    pub(crate) fn values_bytes(&self, slots: usize) -> usize {
        slots.saturating_sub(1) * self.value_stride + self.dtype.row_bytes(self.value_dim)
    }

    /// Returns the slots of this span that query `index` attends to; empty if it attends to none.
    pub(crate) fn visible(&self, index: usize) -> std::ops::Range<usize> {
        let slot = |position: u32| (position.saturating_sub(self.span_start) as usize).min(SPAN_POSITIONS);
        let (first, until) = (slot(self.first[index]), slot(self.until[index]));
        first.min(until)..until
    }
}

/// Softmax over some positions for some queries, not yet divided.
#[derive(Debug)]
pub struct Softmax<'a> {
    /// Largest score per query. `[queries]`
    pub max: &'a mut [f32],
    /// Sum of `exp(score - max)`. `[queries]`
    pub sum: &'a mut [f32],
    /// Weighted values. `[queries, value_dim]`
    pub acc: &'a mut [f32],
}

impl Softmax<'_> {
    /// Makes this the result over no position at all, with which merging starts.
    pub fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        self.acc.fill(0.0);
    }
}

/// Memory for one span's unpacked keys, values and scores. Grows to what the largest call needs and is then reused.
#[derive(Debug, Default)]
pub struct AttendScratch {
    /// One page's keys, transposed: `[head_dim, PAGE_POSITIONS]`.
    pub(crate) keys: Vec<[f32; PAGE_POSITIONS]>,
    /// One page's values: `[PAGE_POSITIONS, value_dim]`.
    pub(crate) values: Vec<f32>,
    /// Scores, then weights: `[queries, SPAN_POSITIONS]`.
    pub(crate) scores: Vec<[f32; SPAN_POSITIONS]>,
}

impl AttendScratch {
    /// Empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for calls of up to this many queries and elements of keys and values, so that they allocate nothing.
    pub fn reserve(&mut self, queries: usize, head_dim: usize, value_dim: usize) {
        let additional = |capacity: usize, len: usize| capacity.saturating_sub(len);
        self.keys.reserve(additional(head_dim, self.keys.len()));
        self.values.reserve(additional(PAGE_POSITIONS * value_dim, self.values.len()));
        self.scores.reserve(additional(queries, self.scores.len()));
    }
}
