//! Checks before a computation: a weight against its size, a plan against weights, a batch against pages.
//!
//! Backends index without further checks. So every error of a model file or a caller is refused here, with the step or
//! row. Nothing here computes, so the CPU backend and the oracle share it.

mod delta;
mod experts;
mod heads;
mod mixing;
mod part_attention;
mod recurrent;
mod state_space;

use cairn_gguf::DType;

use crate::backend::{BackendError, Limits};
use crate::batch::{AdapterUse, Batch, Input};
use crate::page::{PAGE_TOKENS, PageLayout};
use crate::plan::{Buffer, BufferId, Glu, Op, Plan, Rows};
use crate::state::{State, StateId, StateKind, Values};
use crate::weight::{Weight, WeightId};

/// More heads than in any model. Each thread has memory for the scores of heads that share a key, and products do not overflow.
const MAX_HEADS: usize = 1 << 16;
/// More elements of a head than in any model. Each thread has memory for some of its keys, values and queries.
const MAX_HEAD_DIM: usize = 1 << 14;

/// Checks the size of a weight against its shape.
pub(crate) fn weight(weight: &Weight) -> Result<(), BackendError> {
    let Weight { name, dtype, rows, cols, bytes } = weight;
    let whole = dtype.is_weight() && *cols > 0 && cols % dtype.block() == 0;
    let row_bytes = (cols / dtype.block()).checked_mul(dtype.block_bytes());
    let need = row_bytes.and_then(|row_bytes| row_bytes.checked_mul(*rows)).unwrap_or(usize::MAX);
    if whole && need == bytes.len() {
        return Ok(());
    }
    let (name, dtype, have) = (name.clone(), dtype.name(), bytes.len());
    Err(BackendError::WeightSize { name, rows: *rows, cols: *cols, dtype, need, have })
}

/// A plan under check.
struct PlanCheck<'a> {
    plan: &'a Plan,
    weights: &'a [Weight],
}

/// Checks a plan by the shapes of its weights, as [`Backend::prepare`](crate::Backend::prepare) does. Their bytes are not read, and may
/// be missing.
///
/// # Errors
/// [`BackendError::Plan`] with the step that does not fit.
pub fn check_plan(plan: &Plan, weights: &[Weight]) -> Result<(), BackendError> {
    self::plan(plan, weights, plan.kv_type(DType::F16).0)
}

/// Checks every step of a plan, and that its states fit rows of this type.
pub(crate) fn plan(plan: &Plan, weights: &[Weight], kv_type: DType) -> Result<(), BackendError> {
    let check = PlanCheck { plan, weights };
    for (step, op) in plan.ops.iter().enumerate() {
        check.op(step, op).map_err(|why| BackendError::Plan { step, why })?;
    }
    let end = plan.ops.len();
    if let Some(empty) = plan.buffers.iter().position(|buffer| buffer.width == 0) {
        return Err(BackendError::Plan { step: end, why: format!("buffer {empty} has no width") });
    }
    for (index, state) in plan.states.iter().enumerate() {
        // A key has elements beside the value in it.
        let is_all_value = matches!(state.values, Values::InKeys(elements) if elements >= state.head_dim);
        let is_empty = state.kv_heads == 0 || state.head_dim == 0 || state.value_dim() == 0 || is_all_value;
        if is_empty || matches!(state.kind, StateKind::Window(0) | StateKind::Chunk(0)) {
            return Err(BackendError::Plan { step: end, why: format!("state {index} is empty: {state:?}") });
        }
        let widest = state.head_dim.max(state.value_dim());
        require(widest <= MAX_HEAD_DIM, || {
            format!("state {index} has heads of {widest} elements, more than {MAX_HEAD_DIM}")
        })
        .map_err(|why| BackendError::Plan { step: end, why })?;
    }
    recurrent::states(plan).map_err(|why| BackendError::Plan { step: end, why })?;
    if let Some(uneven) = plan.kv_type(kv_type).1 {
        return Err(BackendError::Plan { step: end, why: uneven.to_string() });
    }
    if let Some(logits) = plan.logits {
        let buffer = check.buffer(logits).map_err(|why| BackendError::Plan { step: end, why })?;
        require(buffer.rows == Rows::Logits, || "the logits have one row for each row of the batch".into())
            .map_err(|why| BackendError::Plan { step: end, why })?;
    }
    Ok(())
}

/// Checks that another plan has the same page layout.
pub(crate) fn layout(plan: &Plan, fixed: Option<&PageLayout>, layout: &PageLayout) -> Result<(), BackendError> {
    let same = fixed.is_none_or(|fixed| fixed == layout);
    let why = || "its states differ from those of the plan that fixed the page layout".to_owned();
    require(same, why).map_err(|why| BackendError::Plan { step: plan.ops.len(), why })
}

/// Returns the error unless the condition holds.
fn require(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

impl PlanCheck<'_> {
    fn buffer(&self, id: BufferId) -> Result<Buffer, String> {
        self.plan.buffers.get(id.0 as usize).copied().ok_or_else(|| format!("there is no buffer {}", id.0))
    }

    fn weight(&self, id: WeightId) -> Result<&Weight, String> {
        self.weights.get(id.0 as usize).ok_or_else(|| format!("there is no weight {}", id.0))
    }

    fn state(&self, id: StateId) -> Result<State, String> {
        self.plan.states.get(id.0 as usize).copied().ok_or_else(|| format!("there is no state {}", id.0))
    }

    /// Checks that a weight is a vector of `len` elements.
    fn vector(&self, id: WeightId, len: usize) -> Result<(), String> {
        let Weight { name, rows, cols, .. } = self.weight(id)?;
        require(*rows == 1 && *cols == len, || format!("{name} is {rows} x {cols}, not a vector of {len}"))
    }

    /// Checks that two buffers have the same shape.
    fn alike(&self, a: BufferId, b: BufferId) -> Result<(), String> {
        let (x, y) = (self.buffer(a)?, self.buffer(b)?);
        require(x == y, || format!("buffers {} and {} differ: {x:?}, {y:?}", a.0, b.0))
    }

    /// Checks that a buffer has a row for each row of the batch, and this width.
    fn batch_rows(&self, id: BufferId, width: usize) -> Result<(), String> {
        let want = Buffer { rows: Rows::Batch, width };
        let have = self.buffer(id)?;
        require(have == want, || format!("buffer {} is {have:?}, not {want:?}", id.0))
    }

    /// Checks that two buffers are different.
    fn apart(a: BufferId, b: BufferId) -> Result<(), String> {
        require(a != b, || format!("buffer {} is both read and written", a.0))
    }

    fn op(&self, step: usize, op: &Op) -> Result<(), String> {
        match op {
            Op::Embed { table, out } | Op::EmbedTokens { table, out } => {
                self.batch_rows(*out, self.weight(*table)?.cols)
            }
            Op::Input { out } => {
                let width = self.buffer(*out)?.width;
                self.batch_rows(*out, width)
            }
            Op::AddInput { x, first } => {
                let width = self.buffer(*x)?.width;
                self.batch_rows(*x, width)?;
                require(first.checked_add(width).is_some(), || format!("an embedding row has no element {first}"))
            }
            Op::AddGridEmbedding { x, table, side } => {
                let Weight { rows, cols, .. } = *self.weight(*table)?;
                self.batch_rows(*x, cols)?;
                require(*side > 0 && side.checked_mul(*side) == Some(rows), || {
                    format!("{rows} positions are not a grid with a side of {side}")
                })
            }
            Op::AddEmbedding { x, table, component } => {
                self.batch_rows(*x, self.weight(*table)?.cols)?;
                require(*component < 4, || format!("a position has 4 components, not {component}"))
            }
            Op::RmsNorm { x, weight, eps, group, out } => {
                self.alike(*x, *out)?;
                let width = self.buffer(*x)?.width;
                let is_whole = self.weight(*weight)?.cols == width;
                self.vector(*weight, if is_whole { width } else { *group })?;
                require(*group > 0 && width % group == 0, || {
                    format!("{width} elements are not whole groups of {group}")
                })?;
                require(*eps >= 0.0, || format!("eps is {eps}"))
            }
            Op::LayerNorm { x, weight, bias, eps, out } => {
                self.alike(*x, *out)?;
                let width = self.buffer(*x)?.width;
                self.vector(*weight, width)?;
                bias.map_or(Ok(()), |bias| self.vector(bias, width))?;
                require(*eps >= 0.0, || format!("eps is {eps}"))
            }
            Op::MatMul { x, projections } | Op::MatMulAdapter { x, projections, .. } => {
                let input = self.buffer(*x)?;
                require(!projections.is_empty(), || "the product has no weights".into())?;
                for (index, projection) in projections.iter().enumerate() {
                    let Weight { name, rows, cols, .. } = self.weight(projection.weight)?;
                    let out = self.buffer(projection.out)?;
                    require(*cols == input.width, || {
                        format!("{name} is {rows} x {cols}, its input is {} wide", input.width)
                    })?;
                    require(out == Buffer { rows: input.rows, width: *rows }, || {
                        format!("{name} is {rows} x {cols}, its output {out:?}")
                    })?;
                    if let Some(bias) = projection.bias {
                        self.vector(bias, *rows)?;
                    }
                    Self::apart(*x, projection.out)?;
                    for other in &projections[..index] {
                        Self::apart(other.out, projection.out)?;
                    }
                }
                Ok(())
            }
            Op::MatMulHeads { from, weight, to } => self.multiply_heads(*from, *weight, *to),
            Op::CopyHeads { from, to, width } | Op::AddHeads { from, to, width } => self.copy_heads(*from, *to, *width),
            Op::AddMixed { x, factors, width, out } => self.add_mixed([*x, *factors, *out], *width),
            Op::MatchLength { x, like } => self.match_length(*x, *like),
            Op::KeepOutliers { x, deviations } => self.keep_outliers(*x, *deviations),
            Op::AddWeight { x, weight } | Op::MulWeight { x, weight } => self.vector(*weight, self.buffer(*x)?.width),
            Op::Route { logits, router, out } => self.route(*logits, router, *out),
            Op::MatMulId { x, routes, experts, projections } => {
                let routes = self.routes(step, *routes, *x)?;
                require(routes.experts == *experts, || {
                    format!("{} experts were routed, not {experts}", routes.experts)
                })?;
                self.experts(routes, *x, projections)
            }
            Op::WeighInputs { x, routes, out } => {
                let routes = self.routes(step, *routes, *x)?;
                self.weigh_inputs(routes, *x, *out)
            }
            Op::Combine { x, routes, out } => {
                let routes = self.routes(step, *routes, *x)?;
                self.combine(routes, *x, *out)
            }
            Op::Rope { x, head_dim, rope } => {
                let width = self.buffer(*x)?.width;
                self.batch_rows(*x, width)?;
                let rope = self.plan.ropes.get(*rope).ok_or_else(|| format!("there is no rotation {rope}"))?;
                let rotated = 2 * rope.inverse_frequencies.len();
                let components = rope.components.len();
                require(components == 0 || 2 * components == rotated, || {
                    format!("{components} components for {rotated} rotated elements")
                })?;
                require(rope.components.iter().all(|&component| component < 4), || {
                    format!("a position has 4 components, not {:?}", rope.components)
                })?;
                require(rope.growth.is_none_or(|growth| growth.factor.is_finite() && growth.step > 0), || {
                    format!("the growth of a rotation is {:?}", rope.growth)
                })?;
                require(rotated > 0 && rotated <= *head_dim, || {
                    format!("{rotated} elements rotate in a head of {head_dim}")
                })?;
                require(width % head_dim == 0, || format!("{width} elements are not whole heads of {head_dim}"))
            }
            Op::StoreKv { state, k, v } => self.store(*state, *k, *v),
            Op::StoreLatent { state, k, v } => self.store_latent(*state, *k, *v),
            Op::Attention { state, q, heads, softcap, sinks, out, .. } => {
                self.heads(*state, *heads, [*q, *out])?;
                sinks.map_or(Ok(()), |sinks| self.vector(sinks, *heads))?;
                softcap.map_or(Ok(()), |cap| require(cap > 0.0, || format!("the cap on scores is {cap}")))
            }
            Op::PartAttention(op) => self.part_attention(op),
            Op::Conv { state, x, weight, bias, out } => self.conv(*state, [*x, *out], *weight, *bias),
            Op::DeltaRule(rule) => self.delta_rule(rule),
            Op::Decay { x, rate, bias } => self.decay(*x, *rate, *bias),
            Op::StateSpace(op) => self.state_space(op),
            Op::Discretise { x, rate, bias, decay } => self.discretise(*x, *rate, *bias, *decay),
            Op::Glu { activation, gate, up, out } => {
                if let Glu::Clamped { alpha, limit } = activation {
                    require(alpha.is_finite() && *limit > 0.0, || format!("the gate is {activation:?}"))?;
                }
                self.alike(*gate, *up)?;
                self.alike(*gate, *out)?;
                Self::apart(*gate, *up)?;
                Self::apart(*up, *out)
            }
            Op::Gelu { x }
            | Op::GeluErf { x }
            | Op::Sigmoid { x }
            | Op::Silu { x }
            | Op::ReluSquared { x }
            | Op::Relu { x } => self.buffer(*x).map(drop),
            Op::Scale { x, factor } => {
                self.buffer(*x)?;
                require(factor.is_finite(), || format!("the factor is {factor}"))
            }
            Op::Clamp { x, least, most } => {
                self.buffer(*x)?;
                require(least <= most, || format!("no value is from {least} to {most}"))
            }
            Op::Softcap { x, cap } => {
                self.buffer(*x)?;
                require(*cap > 0.0, || format!("the cap is {cap}"))
            }
            Op::Add { x, y } => {
                self.alike(*x, *y)?;
                Self::apart(*x, *y)
            }
            Op::AddAdapter { x, y, factor, .. } => {
                self.alike(*x, *y)?;
                Self::apart(*x, *y)?;
                require(factor.is_finite(), || format!("the factor is {factor}"))
            }
            Op::Mul { x, y } => {
                let (x_buffer, y_buffer) = (self.buffer(*x)?, self.buffer(*y)?);
                let fits = y_buffer.width > 0 && x_buffer.width.is_multiple_of(y_buffer.width);
                require(fits && x_buffer.rows == y_buffer.rows, || {
                    format!("{y_buffer:?} has no factor for each element of {x_buffer:?}")
                })?;
                Self::apart(*x, *y)
            }
            Op::Join { x, count, out } => {
                let width = self.buffer(*x)?.width;
                self.batch_rows(*x, width)?;
                let want = width.checked_mul(*count).map(|width| Buffer { rows: Rows::Logits, width });
                let have = self.buffer(*out)?;
                require(*count > 0 && Some(have) == want, || format!("buffer {} is {have:?}, not {want:?}", out.0))
            }
            Op::Gather { x, out } | Op::Mean { x, out } => {
                let width = self.buffer(*x)?.width;
                self.batch_rows(*x, width)?;
                let (have, want) = (self.buffer(*out)?, Buffer { rows: Rows::Logits, width });
                require(have == want, || format!("buffer {} is {have:?}, not {want:?}", out.0))
            }
        }
    }
}

/// Pages and snapshots of a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSizes {
    pub(crate) pages: usize,
    pub(crate) snapshots: usize,
}

/// Checks a batch against the limits that the plan was prepared for and the backend's pools.
pub(crate) fn batch(
    batch: &Batch,
    plan: &Plan,
    weights: &[Weight],
    limits: Limits,
    PoolSizes { pages, snapshots }: PoolSizes,
) -> Result<(), BackendError> {
    let (rows, logit_rows) = (batch.rows.len(), batch.logit_rows());
    let bad = |why: String| Err(BackendError::Batch(why));
    if rows > limits.rows || logit_rows > limits.logit_rows {
        return bad(format!("{rows} rows, {logit_rows} of them with logits, are beyond the prepared {limits:?}"));
    }
    if let Some(page) = batch.tables.iter().flatten().find(|page| page.0 as usize >= pages) {
        return bad(format!("page {} is beyond the pool's {pages}", page.0));
    }
    for (index, row) in batch.rows.iter().enumerate() {
        let Some(table) = batch.tables.get(row.seq as usize) else {
            return bad(format!("row {index} belongs to sequence {}, there are {}", row.seq, batch.tables.len()));
        };
        let covered = table.len() * PAGE_TOKENS;
        if !plan.states.is_empty() && (row.slot as usize >= covered || row.until as usize > covered) {
            let (slot, until) = (row.slot, row.until);
            return bad(format!("row {index} has slot {slot} and sees {until}, its table covers {covered}"));
        }
        if row.until <= row.slot {
            return bad(format!("row {index} has slot {} and does not see it: it sees {}", row.slot, row.until));
        }
    }
    for pair in batch.rows.windows(2).enumerate() {
        let (index, [a, b]) = (pair.0, [pair.1[0], pair.1[1]]);
        if a.seq == b.seq && a.slot >= b.slot {
            return bad(format!("row {} has slot {} after slot {} of its sequence", index + 1, b.slot, a.slot));
        }
    }
    if plan.states.iter().any(|state| state.kind == StateKind::Region) {
        regions(batch)?;
    }
    part_attention::inputs(batch, plan)?;
    if !plan.recurrent.is_empty() {
        recurrent::snapshots(batch, snapshots).map_err(BackendError::Batch)?;
    }
    let adapters = if batch.adapters.is_empty() { 0 } else { plan.adapters() };
    for (seq, uses) in batch.adapters.iter().enumerate() {
        for (index, AdapterUse { adapter, scale }) in uses.iter().enumerate() {
            if *adapter as usize >= adapters || !scale.is_finite() {
                return bad(format!("sequence {seq} uses adapter {adapter} of {adapters} with the scale {scale}"));
            }
            if uses[..index].iter().any(|other| other.adapter == *adapter) {
                return bad(format!("sequence {seq} uses adapter {adapter} twice"));
            }
        }
    }
    for op in &plan.ops {
        match op {
            Op::Embed { table, .. } => {
                embedding(batch, weights[table.0 as usize].rows, plan.input_width())?;
            }
            Op::EmbedTokens { table, .. } => tokens(batch, weights[table.0 as usize].rows)?,
            Op::Input { .. } => embedding(batch, 0, plan.input_width())?,
            Op::AddGridEmbedding { .. } => places(batch)?,
            Op::Join { count, .. } => groups(batch, *count)?,
            Op::AddEmbedding { table, component, .. } => {
                positions(batch, &weights[table.0 as usize], *component)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that the table has every row's position.
fn positions(batch: &Batch, table: &Weight, component: usize) -> Result<(), BackendError> {
    match batch.rows.iter().position(|row| row.pos[component] as usize >= table.rows) {
        Some(index) => {
            let (at, Weight { name, rows, .. }) = (batch.rows[index].pos[component], table);
            Err(BackendError::Batch(format!("row {index} is at position {at} of {name}, which has {rows}")))
        }
        None => Ok(()),
    }
}

/// Checks that every row is in its region, and that regions are in ascending order.
fn regions(batch: &Batch) -> Result<(), BackendError> {
    let region = |row: &crate::batch::Row| [row.pos[2], row.pos[3]];
    for (index, row) in batch.rows.iter().enumerate() {
        let [start, end] = region(row);
        if !(start..end.min(row.until)).contains(&row.slot) {
            let why = format!("row {index} has slot {} and is not in its region of slots {start}..{end}", row.slot);
            return Err(BackendError::Batch(why));
        }
        let before = index.checked_sub(1).map(|before| &batch.rows[before]).filter(|before| before.seq == row.seq);
        if before.map(region).is_some_and(|before| before[0] > start || before[1] > end) {
            return Err(BackendError::Batch(format!("the region of row {index} is before that of the row before it")));
        }
    }
    Ok(())
}

/// Checks that every row has a place in its picture.
fn places(batch: &Batch) -> Result<(), BackendError> {
    let is_outside = |&[y, x, rows, columns]: &[u32; 4]| y >= rows || x >= columns;
    match batch.rows.iter().map(|row| row.pos).enumerate().find(|(_, pos)| is_outside(pos)) {
        Some((index, [y, x, rows, columns])) => {
            let why = format!("row {index} is at {y}, {x} of a picture of {rows} rows and {columns} columns");
            Err(BackendError::Batch(why))
        }
        None => Ok(()),
    }
}

/// Checks that the rows of a run are whole groups of this size, each with logits for its last row.
fn groups(batch: &Batch, count: usize) -> Result<(), BackendError> {
    let is_wrong = |(index, row): (usize, &crate::batch::Row)| row.want_logits != (index % count == count - 1);
    let tile = batch.tile.as_ref().map(|tile| tile.rows.clone());
    let ends = tile.map_or([0, batch.rows.len()], |rows| [rows.start, rows.end]);
    if let Some(end) = ends.into_iter().find(|end| !end.is_multiple_of(count)) {
        return Err(BackendError::Batch(format!("a run from or to row {end} divides a group of {count} rows")));
    }
    match batch.rows.iter().enumerate().position(is_wrong) {
        Some(index) => {
            Err(BackendError::Batch(format!("only the last row of a group of {count} has logits, unlike row {index}")))
        }
        None => Ok(()),
    }
}

/// Checks that a table has a row for every token, and for the other inputs.
fn tokens(batch: &Batch, count: usize) -> Result<(), BackendError> {
    let rows = batch.rows.iter().map(|row| row.input.token_or_padding());
    match rows.enumerate().find(|(_, token)| *token as usize >= count) {
        Some((index, token)) => {
            Err(BackendError::Batch(format!("row {index} needs row {token} of a table of tokens, which has {count}")))
        }
        None => Ok(()),
    }
}

/// Checks that every row's input exists: a token of a table, or an embedding of this width.
fn embedding(batch: &Batch, tokens: usize, width: usize) -> Result<(), BackendError> {
    let given = batch.embeddings.len() / width;
    for (index, row) in batch.rows.iter().enumerate() {
        let (what, at, count) = match row.input {
            Input::Token(token) => ("token", token, tokens),
            Input::Embedding(at) => ("embedding", at, given),
        };
        if at as usize >= count {
            return Err(BackendError::Batch(format!("row {index} is {what} {at}, there are {count}")));
        }
    }
    Ok(())
}
