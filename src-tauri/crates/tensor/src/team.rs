//! The compute team: threads that run one closure together and wait for each other at barriers inside it.
//!
//! A decode step consists of 200 to 400 ops, each too short for a work-stealing pool to hand out. So a whole plan runs in
//! *one* region: [`Team::run`] calls the same closure on every thread, the calling thread being number 0, and the ops
//! inside are separated by [`Worker::barrier`], which costs well under a microsecond while every thread has a core.
//! [`Team::run_short`] uses fewer threads if other programs use some of the cores (`limit`).
//!
//! Waiting spins for a bounded time, then yields, then sleeps (`gate`), so a team may have more threads than there are
//! cores and an idle one uses no processor time. A panic on any thread releases the others from their barriers and is
//! handed to the caller of [`Team::run`].
//!
//! **Invariant:** no thread is inside a region's closure once [`Team::run`] has returned or unwound. The closure may
//! therefore borrow from its caller.
#![expect(unsafe_code, reason = "a closure that borrows from its caller is handed to threads that outlive the call")]

mod affinity;
mod cpu_time;
mod gate;
mod limit;
mod memory;
pub(crate) mod share;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use cpu_time::CpuTime;
use gate::{Barrier, Event};
use limit::{Sample, ThreadLimit};

/// The closure that every thread of a region calls.
type Job<'a> = dyn Fn(&Worker<'_>) + Sync + 'a;

/// A group of threads that compute together. Dropping it ends them.
#[derive(Debug)]
pub struct Team {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
    /// Cores of the threads, in order; empty if the threads are not pinned.
    cores: Vec<usize>,
    /// Held during a region: several models share one team and take turns.
    turn: Mutex<()>,
    limit: ThreadLimit,
}

/// State that all threads of a team share.
#[derive(Debug)]
struct Common {
    /// By thread, without the caller: advances when a region starts in which the thread takes part.
    starts: Box<[Event]>,
    /// Barrier inside a region.
    inside: Barrier,
    /// Barrier at the end of a region.
    end: Barrier,
    /// Points at the caller's `&Job` during a region.
    job: AtomicPtr<()>,
    /// Set when a thread panicked, until the region has ended.
    failed: AtomicBool,
    /// The first panic of the region.
    payload: Mutex<Option<Box<dyn Any + Send>>>,
    /// Set once, when the team is dropped.
    quit: AtomicBool,
    /// CPU time of all threads.
    cpu_time: CpuTime,
}

/// A thread's place in a region.
#[derive(Debug)]
pub struct Worker<'a> {
    common: &'a Common,
    index: usize,
    /// A worker belongs to the thread that created it and must not leave it.
    here: PhantomData<*const ()>,
}

/// Panic payload that unwinds the threads which wait for a thread that panicked. Callers never see it.
struct AbortSignal;

impl Team {
    /// Makes a team of `threads`, the caller of [`Team::run`] included; zero counts as one. Thread `i` is pinned to
    /// core `cores[i]` where there is one and the system allows it; the calling thread pins itself with
    /// [`Team::pin_caller`].
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(threads: usize, cores: &[usize]) -> io::Result<Self> {
        let count = threads.max(1);
        // With fewer cores than threads, a spinning thread would take the core of the thread that it waits for.
        let spin = cores.is_empty() || count <= cores.len();
        let common = Arc::new(Common {
            starts: (1..count).map(|_| Event::new(spin)).collect(),
            inside: Barrier::new(count, spin),
            end: Barrier::new(count, spin),
            job: AtomicPtr::new(ptr::null_mut()),
            failed: AtomicBool::new(false),
            payload: Mutex::new(None),
            quit: AtomicBool::new(false),
            cpu_time: CpuTime::default(),
        });
        let (threads, turn, limit) = (Vec::new(), Mutex::new(()), ThreadLimit::new(count));
        let mut team = Self { common, threads, cores: cores.to_vec(), turn, limit };
        for index in 1..count {
            let (common, core) = (Arc::clone(&team.common), cores.get(index).copied());
            let body = move || {
                if let Some(core) = core {
                    affinity::pin(core);
                }
                common.serve(index);
            };
            team.threads.push(thread::Builder::new().name(format!("cairn-compute-{index}")).spawn(body)?);
        }
        Ok(team)
    }

    /// Threads in the team, the caller of [`Team::run`] included.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Pins the current thread to the first of the team's cores, and returns whether the system allowed it. For the one
    /// thread that calls [`Team::run`] all its life; threads that it starts afterwards inherit the core.
    pub fn pin_caller(&self) -> bool {
        self.cores.first().is_some_and(|core| affinity::pin(*core))
    }

    /// Calls `work` once on every thread, including the caller, and returns after all calls. Waits while another
    /// thread's region runs, so a region must not start another one on the same team.
    ///
    /// # Panics
    /// With the first panic of a call, after all calls have ended.
    pub fn run<F: Fn(&Worker<'_>) + Sync>(&self, work: F) {
        self.run_region(self.turn.lock(), self.threads(), &work);
    }

    /// Like [`Team::run`] for a short step: with fewer threads while other threads use the cores of the team.
    ///
    /// # Panics
    /// With the first panic of a call, after all calls have ended.
    pub fn run_short<F: Fn(&Worker<'_>) + Sync>(&self, work: F) {
        self.run_region(self.turn.lock(), self.free_threads(), &work);
    }

    /// Like [`Team::run`], but returns false without a call while another thread's region runs.
    ///
    /// # Panics
    /// With the first panic of a call, after all calls have ended.
    pub fn try_run<F: Fn(&Worker<'_>) + Sync>(&self, work: F) -> bool {
        let Some(turn) = self.turn.try_lock() else { return false };
        self.run_region(turn, self.threads(), &work);
        true
    }

    /// Number of threads that have a core for themselves.
    fn free_threads(&self) -> usize {
        if self.threads.is_empty() || self.cores.is_empty() {
            return self.threads();
        }
        let now = Instant::now();
        self.limit.threads(now, [self.threads(), self.cores.len()], || {
            let busy = cairn_hardware::busy_time(&self.cores)?;
            Some(Sample { at: now, busy, own: self.common.cpu_time.total() })
        })
    }

    /// Runs `job` on the first `threads` threads.
    fn run_region(&self, turn: MutexGuard<'_, ()>, threads: usize, job: &Job<'_>) {
        let common = &*self.common;
        common.job.store(ptr::from_ref(&job).cast_mut().cast(), Ordering::Relaxed);
        // No thread is in a region, so none waits at these.
        common.inside.set_count(threads);
        common.end.set_count(threads);
        common.starts[..threads - 1].iter().for_each(Event::advance);
        common.call(0, job);
        common.end.wait(|| false);
        if common.failed.load(Ordering::Acquire) {
            let payload = common.payload.lock().take().expect("a thread sets its payload before it reports failure");
            common.inside.reset();
            common.failed.store(false, Ordering::Release);
            resume_unwind(payload);
        }
        // The next caller in the queue is next, and not this one again, so that models take turns.
        MutexGuard::unlock_fair(turn);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.common.quit.store(true, Ordering::Release);
        self.common.starts.iter().for_each(Event::advance);
        for thread in self.threads.drain(..) {
            // A worker catches every panic of a region, so there is nothing to learn from the result.
            drop(thread.join());
        }
    }
}

impl Common {
    /// Runs one region after another until the team is dropped.
    fn serve(&self, index: usize) {
        let (start, mut seen) = (&self.starts[index - 1], Event::FIRST);
        loop {
            start.wait(seen);
            seen = start.now();
            if self.quit.load(Ordering::Acquire) {
                return;
            }
            let job = self.job.load(Ordering::Relaxed).cast_const().cast::<&Job<'_>>();
            // SAFETY: `run_region` stored the address of a live `&Job` before it advanced this thread's start, and stays in
            // its frame until this thread has arrived at `end`, which it does after its last use of the reference.
            let job = unsafe { *job };
            self.call(index, job);
            self.end.arrive();
        }
    }

    /// Runs one thread's part of a region and stores its panic.
    fn call(&self, index: usize, job: &Job<'_>) {
        let worker = Worker { common: self, index, here: PhantomData };
        let called = catch_unwind(AssertUnwindSafe(|| job(&worker)));
        self.cpu_time.add_thread();
        if let Err(payload) = called {
            if payload.is::<AbortSignal>() {
                return;
            }
            self.payload.lock().get_or_insert(payload);
            self.failed.store(true, Ordering::Release);
            self.inside.release();
        }
    }
}

impl Worker<'_> {
    /// This thread's number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Threads in the region.
    pub fn threads(&self) -> usize {
        self.common.inside.count()
    }

    /// Waits until every thread of the region arrives. Earlier writes of all threads are then visible to all of them.
    ///
    /// # Panics
    /// Unwinds if another thread panicked, because that thread will never arrive.
    pub fn barrier(&self) {
        if !self.common.inside.wait(|| self.common.failed.load(Ordering::Acquire)) {
            resume_unwind(Box::new(AbortSignal));
        }
    }
}
