//! The slices of a plan's runs. A slice must keep its rows and their pages, because a model has results of earlier layers in both.

use cairn_tensor::{Batch, PAGE_TOKENS, PageId, Plan, Row, Slice, SliceProgress};

/// The slices of a plan.
#[derive(Debug)]
pub(super) struct Slices {
    layers: usize,
    progress: SliceProgress,
    /// By row of the slice in progress: its page.
    pages: Vec<PageId>,
}

impl Slices {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { layers: plan.layers(), progress: SliceProgress::default(), pages: Vec::new() }
    }

    /// Returns the rows that a run completes.
    pub(super) fn completed<'a>(&mut self, batch: &'a Batch) -> Result<&'a [Row], String> {
        self.progress.begin_run(batch, self.layers)?;
        let Some(Slice { rows, layers }) = &batch.slice else { return Ok(&batch.rows) };
        let (inside, others) = batch.rows.split_at(*rows);
        // Pages of earlier slots may be exchanged for pages with the same rows.
        let page = |row: &Row| batch.tables[row.seq as usize][row.slot as usize / PAGE_TOKENS];
        let pages: Vec<PageId> = inside.iter().map(page).collect();
        if layers.start > 0 && pages != self.pages {
            return Err(format!("the slice continues at {layers:?} in other pages"));
        }
        self.pages = pages;
        Ok(if layers.end == self.layers { &batch.rows } else { others })
    }

    /// Number of rows that take as long as the rows of a run in their layers.
    pub(super) fn rows_in_all_layers(&self, batch: &Batch) -> f64 {
        let Some(Slice { rows, layers }) = &batch.slice else { return batch.rows.len() as f64 };
        (batch.rows.len() - rows) as f64 + (rows * layers.len()) as f64 / self.layers as f64
    }
}
