//! SIGBUS handler for lost pages of mapped files, and the registry of these mappings.
//!
//! The handler runs on the reading thread, so it may only use async-signal-safe operations: atomics and plain system
//! calls. The registry is a fixed table of atomics; registration and removal take no lock.
//!
//! On a fault inside a registered mapping the *whole* mapping is replaced by anonymous zero pages. So each reading
//! thread faults at most once, and one memory area is enough; replacing single pages could exceed the system's limit of
//! areas. Other faults are passed to the previous handler, for example Rust's, which reports stack overflows.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[cfg(test)]
mod tests;

/// Maximum number of mapped files.
const SLOTS: usize = 1024;

static REGISTRY: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// The previous SIGBUS action. Set before the handler is installed, so the handler only reads it.
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

    /// Returns the registered range if it contains this address. Ignores a range that changes concurrently: no thread
    /// can read a mapping that is being registered or dropped.
    fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let len = self.len.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let stable = len != 0 && self.len.load(Ordering::Acquire) == len;
        (stable && address.checked_sub(start).is_some_and(|offset| offset < len)).then_some((start, len))
    }
}

/// Entry of a mapping in the registry, removed on drop.
#[derive(Debug)]
pub(super) struct Registration {
    index: usize,
}

impl Registration {
    /// Registers page-aligned mapped bytes. The first call installs the handler.
    pub(super) fn new(mapped: &[u8]) -> io::Result<Self> {
        install()?;
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(index) = REGISTRY.iter().position(free) else {
            return Err(io::Error::other(format!("too many mapped files: the limit is {SLOTS}")));
        };
        let slot = &REGISTRY[index];
        slot.poisoned.store(false, Ordering::Relaxed);
        slot.start.store(mapped.as_ptr() as usize, Ordering::Release);
        slot.len.store(mapped.len(), Ordering::Release);
        Ok(Self { index })
    }

    pub(super) fn is_poisoned(&self) -> bool {
        REGISTRY[self.index].poisoned.load(Ordering::Acquire)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let slot = &REGISTRY[self.index];
        slot.len.store(0, Ordering::Release);
        slot.taken.store(false, Ordering::Release);
    }
}

/// Installs the handler once per process.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let mut previous = mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: a null action only queries; the kernel fills `previous`, which is large enough by its type.
        if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        // SAFETY: the call succeeded, so it filled the struct.
        PREVIOUS.get_or_init(|| unsafe { previous.assume_init() });

        // SAFETY: `sigaction` is a C struct of integers and an optional function pointer, for which zeros are valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_bus_error as *const () as usize;
        // Some systems report stack overflows as SIGBUS, so the handler must run on the alternate stack.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `on_bus_error` has the signature that SA_SIGINFO asks for and is async-signal-safe.
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
    // Codes of 0 and below are signals sent by a process; they have no address.
    if fault.si_code > 0 {
        // SAFETY: a SIGBUS that the kernel raised carries the address of the access.
        let address = unsafe { fault.si_addr() } as usize;
        for slot in &REGISTRY {
            if let Some((start, len)) = slot.range_around(address) {
                // Marked before the replacement, so that no thread can read zeros of an unmarked mapping.
                slot.poisoned.store(true, Ordering::SeqCst);
                if replace_with_zeros(start, len) {
                    return;
                }
            }
        }
    }
    call_previous(signal, info, context);
}

/// Replaces a mapping by zero pages. The reading thread then repeats its access and reads zeros.
fn replace_with_zeros(start: usize, len: usize) -> bool {
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED);
    // SAFETY: the range is a registered mapping, which exists until its registration ends, so MAP_FIXED replaces no
    // other memory. The range stays readable throughout. `mmap` is a plain system call that leaves errno alone when it
    // succeeds.
    let mapped = unsafe { libc::mmap(start as *mut c_void, len, protection, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Calls the previous handler.
fn call_previous(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().filter(|previous| ![libc::SIG_DFL, libc::SIG_IGN].contains(&previous.sa_sigaction));
    let Some(previous) = previous else {
        // The failed access is repeated after the return and then ends the process, as by default. A fault cannot be
        // ignored. SAFETY: restoring the default action is allowed in a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: a handler installed with SA_SIGINFO has this signature.
        let handler: Handler = unsafe { mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal, info, context);
    } else {
        type Handler = extern "C" fn(c_int);
        // SAFETY: a handler installed without SA_SIGINFO has this signature.
        let handler: Handler = unsafe { mem::transmute::<usize, Handler>(previous.sa_sigaction) };
        handler(signal);
    }
}
