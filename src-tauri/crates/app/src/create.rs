//! Create: pulls the base model if it is missing, then makes the model in the library.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::app::App;
use crate::error::Error;
use crate::library::catalog::local_name;
use crate::library::{self, Create, CreateStep, Steps};
use crate::transfers::{Pull, PullError, PullEvent, PullStep};

/// Shortest time between two progress events.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Capacity of the event channel. A full channel blocks the work.
const EVENT_CAPACITY: usize = 16;

/// Event of a create.
#[derive(Debug)]
pub enum CreateEvent {
    /// Progress of the pull of the base model.
    Pull(PullEvent),
    /// A step in the library.
    Step(CreateStep),
    /// The last event: nothing has changed.
    Failed(Error),
}

impl App {
    /// Makes a model. Dropping the receiver cancels. Must be called inside a tokio runtime.
    #[must_use]
    pub fn create(&self, create: Create) -> mpsc::Receiver<CreateEvent> {
        let (sender, receiver) = mpsc::channel(EVENT_CAPACITY);
        let app = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = app.create_now(&create, &sender) {
                // The receiver may have been dropped; that is not an error.
                let _ = sender.blocking_send(CreateEvent::Failed(error));
            }
        });
        receiver
    }

    fn create_now(&self, create: &Create, sender: &mpsc::Sender<CreateEvent>) -> Result<(), Error> {
        let checked = create.check(self.library())?;
        if let Some(from) = create.base_model() {
            self.fetch_base(from, create, sender)?;
        }
        let mut reported: Option<Instant> = None;
        let mut report = |step: CreateStep| {
            let is_between = matches!(&step, CreateStep::Progress { done_bytes, total_bytes, .. }
                if *done_bytes > 0 && done_bytes < total_bytes);
            if !is_between {
                let _ = sender.blocking_send(CreateEvent::Step(step));
            } else if reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
                reported = Some(Instant::now());
                // A receiver that is behind gets the next report instead.
                let _ = sender.try_send(CreateEvent::Step(step));
            }
            !sender.is_closed()
        };
        Ok(self.library().create(create, checked, &mut Steps(&mut report))?)
    }

    /// Pulls the base model unless it is here.
    fn fetch_base(&self, from: &str, create: &Create, sender: &mpsc::Sender<CreateEvent>) -> Result<(), Error> {
        let name = self.library().name_of(from).map_err(library::Error::from)?;
        if self.library().origin(&name)?.is_some() {
            return Ok(());
        }
        if local_name(from).is_some() {
            return Err(library::Error::NotFound(from.to_owned()).into());
        }
        let pull = Pull { name: from.to_owned(), insecure: create.insecure, ..Pull::default() };
        let runtime = Handle::current();
        if create.beyond {
            runtime.block_on(self.transfers().allow_remote_client(&pull))?;
        }
        let mut events = self.transfers().pull(pull)?;
        loop {
            let event = runtime.block_on(async {
                tokio::select! {
                    event = events.next() => Ok(event),
                    // A client that disconnects stops the pull too; what was downloaded is kept.
                    () = sender.closed() => Err(crate::transfers::Error::from(PullError::Stopped)),
                }
            })?;
            match event {
                None => return Ok(()),
                Some(PullEvent::Failed(error)) => return Err(error.into()),
                // The last status of a create is `success`, and clients stop reading there.
                Some(PullEvent::Step(PullStep::Success)) => {}
                Some(event) => {
                    let _ = sender.blocking_send(CreateEvent::Pull(event));
                }
            }
        }
    }
}
