//! Buffers that the threads of a team write in disjoint slices, which are checked when they are claimed.
//!
//! Inside a region, a thread claims a range of a [`Shared`] buffer for reads or writes. The claim table has the range
//! until the slice is dropped. A claim that overlaps another thread's claim panics if one of them writes. So a missing
//! barrier is a failing test, not undefined behaviour, and users of this module need no unsafe code.
//!
//! A claim costs one atomic exchange and a read of one cache line per other thread, about 10 to 50 ns.
//!
//! **Invariant:** a claim is entered before the other entries are read. Of two threads that claim overlapping ranges at
//! once, at least one therefore sees the other and panics without accessing the range.
#![expect(unsafe_code, reason = "slices of one buffer are given to several threads")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Worker;
use super::memory::Memory;
pub(crate) use super::memory::{OutOfMemory, Plain};

/// Most claims of one thread on one buffer: as many as fit into a cache line.
const CLAIMS: usize = 8;
/// Set in claims to write.
const WRITE: u64 = 1 << 63;
/// Set in claims on a range of columns, through all rows. Below it: 30 bits of the range's start, 32 bits of its end.
const COLUMNS: u64 = 1 << 62;
/// Ranges must start below this.
const MAX_ELEMENTS: usize = 1 << 30;

/// A matrix `[rows, width]` that threads of a team share in parts.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    memory: Memory<T>,
    width: usize,
    /// One cache line of claims for each thread. The last is for a reader outside of a region.
    claims: Box<[Line]>,
}

/// Claim entries of one thread. An entry of 0 is unused.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; CLAIMS]);

/// An entry in a claim table. Dropping it removes the entry.
#[derive(Debug)]
struct Claim<'a> {
    entry: Option<&'a AtomicU64>,
    /// The entry belongs to this thread.
    here: PhantomData<*const ()>,
}

/// A part of a buffer that this thread may read.
#[derive(Debug)]
pub(crate) struct Read<'a, T> {
    first: NonNull<T>,
    len: usize,
    _claim: Claim<'a>,
}

/// A part of a buffer that this thread alone may use.
#[derive(Debug)]
pub(crate) struct Write<'a, T> {
    first: NonNull<T>,
    len: usize,
    _claim: Claim<'a>,
    unique: PhantomData<Cell<T>>,
}

/// Some columns of all rows, that this thread alone may use.
#[derive(Debug)]
pub(crate) struct WriteColumns<'a, T> {
    /// Element 0 of the buffer.
    origin: NonNull<T>,
    rows: usize,
    width: usize,
    columns: Range<usize>,
    _claim: Claim<'a>,
    unique: PhantomData<Cell<T>>,
}

impl<T: Plain> Shared<T> {
    /// `[rows, width]` zeros, aligned to 64 bytes, for teams of up to `threads` threads.
    pub(crate) fn zeroed(rows: usize, width: usize, threads: usize) -> Result<Self, OutOfMemory> {
        let len = rows.saturating_mul(width);
        if len >= MAX_ELEMENTS {
            return Err(OutOfMemory((len as u64).saturating_mul(size_of::<T>() as u64)));
        }
        let claims = (0..=threads).map(|_| Line::default()).collect();
        Ok(Self { memory: Memory::zeroed(len)?, width, claims })
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Claims elements for reads.
    ///
    /// # Panics
    /// When another thread writes some of them, or the range leaves the buffer.
    pub(crate) fn read(&self, worker: &Worker<'_>, range: Range<usize>) -> Read<'_, T> {
        let _claim = self.claim(worker.index(), &range, 0);
        Read { first: self.at(&range), len: range.len(), _claim }
    }

    /// Claims elements for writes.
    ///
    /// # Panics
    /// When another thread, or this one, uses some of them, or the range leaves the buffer.
    pub(crate) fn write(&self, worker: &Worker<'_>, range: Range<usize>) -> Write<'_, T> {
        let _claim = self.claim(worker.index(), &range, WRITE);
        Write { first: self.at(&range), len: range.len(), _claim, unique: PhantomData }
    }

    /// Claims columns of all rows for writes.
    ///
    /// # Panics
    /// When another thread, or this one, uses some of them or any range of elements, or they leave the matrix.
    pub(crate) fn write_columns(&self, worker: &Worker<'_>, columns: Range<usize>) -> WriteColumns<'_, T> {
        assert!(columns.end <= self.width, "columns {columns:?} leave a matrix of {}", self.width);
        let (origin, width, rows) = (self.memory.first(), self.width, self.len() / self.width.max(1));
        let _claim = self.claim(worker.index(), &columns, WRITE | COLUMNS);
        WriteColumns { origin, rows, width, columns, _claim, unique: PhantomData }
    }

    /// Copies elements out, from outside of any region.
    pub(crate) fn copy_to(&self, range: Range<usize>, out: &mut [T]) {
        let own = self.claims.len() - 1;
        let _claim = loop {
            match self.try_claim(own, &range, 0) {
                Some(claim) => break claim,
                // Outside readers share one line, and it may be full for a moment.
                None => thread::yield_now(),
            }
        };
        let part = Read { first: self.at(&range), len: range.len(), _claim };
        out.copy_from_slice(&part);
    }

    /// All elements, while no region can be using them.
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        self.memory.all_mut()
    }

    /// The address of a range that [`Shared::claim`] has checked.
    fn at(&self, range: &Range<usize>) -> NonNull<T> {
        // SAFETY: every caller has called `claim` before, which panics unless the range lies within the memory.
        unsafe { self.memory.first().add(range.start) }
    }

    /// Enters a range for a thread and checks it against all others.
    fn claim(&self, thread: usize, range: &Range<usize>, flags: u64) -> Claim<'_> {
        self.try_claim(thread, range, flags).expect("a thread holds at most eight claims on a buffer")
    }

    /// The same, or none if the thread's line is full.
    fn try_claim(&self, thread: usize, range: &Range<usize>, flags: u64) -> Option<Claim<'_>> {
        let (start, end, len) = (range.start, range.end, self.len());
        assert!(start <= end && end <= len, "range {start}..{end} leaves a buffer of {len}");
        if start == end {
            return Some(Claim { entry: None, here: PhantomData });
        }
        let claim = flags | (start as u64) << 32 | end as u64;
        let free = |entry: &&AtomicU64| entry.compare_exchange(0, claim, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        let entry = self.claims[thread].0.iter().find(free)?;
        let held = Claim { entry: Some(entry), here: PhantomData };
        for (other, line) in self.claims.iter().enumerate() {
            for one in line.0.iter().filter(|one| !std::ptr::eq(*one, entry)) {
                let seen = one.load(Ordering::SeqCst);
                let (from, to) = ((seen & !(WRITE | COLUMNS)) >> 32, seen & u64::from(u32::MAX));
                // Elements and columns are not compared: no two threads use one buffer in both ways at once.
                let meets = seen != 0 && (seen ^ claim) & COLUMNS != 0 || (from as usize) < end && start < to as usize;
                assert!(
                    !meets || (seen | claim) & WRITE == 0,
                    "thread {thread} takes {start}..{end} while thread {other} holds {from}..{to}, one of them to write"
                );
            }
        }
        Some(held)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            entry.store(0, Ordering::Release);
        }
    }
}

impl<T> Deref for Read<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the range lies within initialised memory, and its claim keeps every writer out while `self` lives.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Deref for Write<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the range lies within initialised memory, and its claim keeps all other threads out while `self`
        // lives.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Write<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only slice from this claim.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> WriteColumns<'_, T> {
    /// The columns of one row.
    ///
    /// # Panics
    /// When the matrix has no such row.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: `write_columns` checked the columns against the width, and the row was checked just now, so this is
        // an element of the matrix or, for no columns, at most one past it.
        let first = unsafe { self.origin.add(row * self.width + self.columns.start) };
        // SAFETY: the columns of a row lie within initialised memory, their claim keeps all other threads out while
        // `self` lives, and `&mut self` makes this the only slice from this claim.
        unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), self.columns.len()) }
    }
}
