//! Zeroed memory at a multiple of 64 bytes. A failed allocation is an error instead of an abort.
#![expect(unsafe_code, reason = "std offers no fallible, zeroed, aligned allocation")]

use std::alloc::{self, Layout};
use std::fmt;
use std::ptr::NonNull;

/// Alignment of the first element.
const ALIGN_BYTES: usize = 64;
/// Alignment requested from the allocator. Not more, for beyond this std clears the memory by hand instead of taking it
/// zeroed, and page by page when touched, from the system.
const NATURAL_BYTES: usize = 16;
/// Least size of memory in huge pages. Less would leave too much of a huge page unused.
#[cfg(target_os = "linux")]
const HUGE_BYTES: usize = 4 << 20;

/// Element types for which all zero bits are a valid value, and which need no drop.
///
/// # Safety
/// The type has these properties, and an alignment of at most 64.
pub(crate) unsafe trait Plain: Copy + Send + Sync {}
// SAFETY: an integer.
unsafe impl Plain for u8 {}
// SAFETY: zero bits are 0.0.
unsafe impl Plain for f32 {}

/// An allocation of this many bytes failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory(pub(crate) u64);

/// A fixed number of elements, owned.
pub(super) struct Memory<T> {
    allocation: NonNull<u8>,
    layout: Layout,
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the memory is owned by this value alone, and its elements may move between threads.
unsafe impl<T: Plain> Send for Memory<T> {}
// SAFETY: a shared `Memory` gives out only an address; `share` establishes which thread may use it when.
unsafe impl<T: Plain> Sync for Memory<T> {}

impl<T: Plain> Memory<T> {
    /// `len` zeros.
    pub(super) fn zeroed(len: usize) -> Result<Self, OutOfMemory> {
        let need_bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let bytes = usize::try_from(need_bytes).ok().and_then(|bytes| bytes.checked_add(ALIGN_BYTES));
        let layout = bytes
            .and_then(|bytes| Layout::from_size_align(bytes, NATURAL_BYTES).ok())
            .ok_or(OutOfMemory(need_bytes))?;
        // SAFETY: the layout's size is at least `ALIGN_BYTES`, so not zero.
        let allocation = unsafe { alloc::alloc_zeroed(layout) };
        let allocation = NonNull::new(allocation).ok_or(OutOfMemory(need_bytes))?;
        #[cfg(target_os = "linux")]
        if layout.size() >= HUGE_BYTES {
            advise_huge_pages(allocation, layout.size());
        }
        let offset = allocation.as_ptr().align_offset(ALIGN_BYTES);
        // SAFETY: the offset is below `ALIGN_BYTES`, by which the allocation is longer than the elements.
        let first = unsafe { allocation.byte_add(offset) }.cast();
        Ok(Self { allocation, layout, first, len })
    }

    /// Address of the first element.
    pub(super) fn first(&self) -> NonNull<T> {
        self.first
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All elements, for the owner.
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: `zeroed` established that `len` elements, initialised to a value, lie from `first`; `&mut self` makes
        // this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

/// Requests huge pages for a new allocation. Attention reads a long context in pieces of a few kilobytes; with larger pages, fewer
/// addresses are translated.
#[cfg(target_os = "linux")]
fn advise_huge_pages(allocation: NonNull<u8>, bytes: usize) {
    // SAFETY: `sysconf` reads a constant of the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let offset = allocation.as_ptr().align_offset(page);
    // SAFETY: the offset is below the size of a page, and an allocation of huge pages is longer.
    let first = unsafe { allocation.as_ptr().byte_add(offset) }.cast();
    let whole = bytes.saturating_sub(offset) / page * page;
    // SAFETY: these whole pages are inside the allocation, and the advice changes no content. The kernel may ignore the advice, so
    // errors are ignored.
    unsafe { libc::madvise(first, whole, libc::MADV_HUGEPAGE) };
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: this is the allocation that `zeroed` made with this layout, freed once.
        unsafe { alloc::dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

impl<T> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} x {} bytes)", self.len, size_of::<T>())
    }
}
