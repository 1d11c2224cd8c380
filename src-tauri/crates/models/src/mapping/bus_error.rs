//! What happens when a mapped page is gone: a handler for SIGBUS and the registry it looks faults up in.
//!
//! The handler runs on the thread that read, between two of its instructions, so it may only use what is safe there: atomics and
//! plain system calls. The registry is a fixed table of atomics; registering and leaving it take no lock either.
//!
//! On a fault inside a registered mapping the *whole* mapping is replaced by anonymous zero pages: one fault per reading
//! thread at most, and one memory area however the reads are spread, where page by page could run into the system's limit of
//! areas. A fault elsewhere goes to the handler that was there before (Rust's own, say, which reports stack overflows).

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(test)]
mod tests;

/// How many files can be mapped at once.
const SLOTS: usize = 1024;

static REGISTRY: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// What handled SIGBUS before us. Set before our handler is installed, so the handler only reads it.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// One registered mapping. Its range is valid while `len` is not 0; `start` changes only while `len` is 0.
struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    len: AtomicUsize,
    poisoned: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
        }
    }

    /// The registered range, if this address is in it. A range that is being replaced meanwhile is not seen: no reader can
    /// be in a mapping that is being registered or dropped.
    fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let len = self.len.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let stable = len != 0 && self.len.load(Ordering::Acquire) == len;
        (stable && address.checked_sub(start).is_some_and(|offset| offset < len)).then_some((start, len))
    }
}

/// A mapping's place in the registry, left on drop.
#[derive(Debug)]
pub(super) struct Watch {
    index: usize,
}

impl Watch {
    /// Registers mapped bytes, which begin at a page's start. The first call installs the handler.
    pub(super) fn new(mapped: &[u8]) -> io::Result<Self> {
        install()?;
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(index) = REGISTRY.iter().position(free) else {
            return Err(io::Error::other(format!("{SLOTS} files are mapped already")));
        };
        let slot = &REGISTRY[index];
        slot.poisoned.store(false, Ordering::Relaxed);
        slot.start.store(mapped.as_ptr() as usize, Ordering::Release);
        slot.len.store(mapped.len(), Ordering::Release);
        Ok(Self { index })
    }

    pub(super) fn poisoned(&self) -> bool {
        REGISTRY[self.index].poisoned.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let slot = &REGISTRY[self.index];
        slot.len.store(0, Ordering::Release);
        slot.taken.store(false, Ordering::Release);
    }
}

/// Installs the handler, once in the process.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let mut previous = mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a null action only asks; the kernel fills `previous`, which is large enough by its type.
        if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        // SAFETY: the call succeeded, so it filled the struct.
        PREVIOUS.get_or_init(|| unsafe { previous.assume_init() });

        // SAFETY: `sigaction` is a C struct of integers and an optional function pointer, for which zeros are valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_bus_error as *const () as usize;
        // The alternate stack is there for stack overflows, which some systems report as SIGBUS and which we pass on.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `on_bus_error` has the signature that SA_SIGINFO asks for and uses only what is allowed in a handler.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a pointer to a filled struct that lives until the handler returns.
    let fault = unsafe { &*info };
    // Codes of 0 and below are signals that a process sent; they carry no address.
    if fault.si_code > 0 {
        // SAFETY: a SIGBUS that the kernel raised carries the address of the access.
        let address = unsafe { fault.si_addr() } as usize;
        for slot in &REGISTRY {
            if let Some((start, len)) = slot.range_around(address) {
                // Marked first, so that nobody sees the zeros and not the mark.
                slot.poisoned.store(true, Ordering::SeqCst);
                if replace_by_zeros(start, len) {
                    return;
                }
            }
        }
    }
    pass_on(signal, info, context);
}

/// Puts zero pages where a mapping was. The reading thread then repeats its access and sees zeros.
fn replace_by_zeros(start: usize, len: usize) -> bool {
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED);
    // SAFETY: the range is a mapping of ours that lives as long as it is registered, so MAP_FIXED replaces nobody else's
    // memory; it stays readable throughout. `mmap` is a plain system call that leaves errno alone when it succeeds.
    let mapped = unsafe { libc::mmap(start as *mut c_void, len, protection, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Does what would have been done without us.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().filter(|previous| ![libc::SIG_DFL, libc::SIG_IGN].contains(&previous.sa_sigaction));
    let Some(previous) = previous else {
        // The access that failed is repeated after the return and then ends the process, as it should. A fault cannot be ignored.
        // SAFETY: restoring the default action is allowed in a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: whoever installed it with SA_SIGINFO gave a function of this signature.
        let handler: Handler = unsafe { mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        type Handler = extern "C" fn(c_int);
        // SAFETY: whoever installed it without SA_SIGINFO gave a function of this signature.
        let handler: Handler = unsafe { mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal);
    }
}
