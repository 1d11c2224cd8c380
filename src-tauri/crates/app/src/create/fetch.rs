//! A model that another one is to be made of, and that is not here: it is pulled first, as by anybody who pulls it.

use cairn_store::ModelRef;
use tokio::runtime::Handle;

use super::Teller;
use crate::{App, Error, Pull, PullError, PullEvent, PullStep};

impl App {
    /// Brings the model called `from` here, unless there is one of that name. To be called outside of async tasks, in a
    /// tokio runtime, and while nothing of the library is held that publishing a model waits for.
    pub(super) fn fetch_base(&self, from: &str, insecure: bool, beyond: bool, tell: &mut Teller) -> Result<(), Error> {
        let name: ModelRef = from.parse()?;
        if self.catalog.origin(&name)?.is_some() {
            return Ok(());
        }
        let pull = Pull { name: from.to_owned(), insecure, ..Pull::default() };
        let runtime = Handle::current();
        if beyond {
            runtime.block_on(self.allow_beyond(&pull))?;
        }
        let mut events = self.pull(pull)?;
        loop {
            let event = runtime.block_on(async {
                tokio::select! {
                    event = events.next() => Ok(event),
                    // Who goes away stops the pull, too; what came of it is kept.
                    () = tell.left() => Err(PullError::Stopped),
                }
            })?;
            match event {
                None => return Ok(()),
                Some(PullEvent::Failed(error)) => return Err(error),
                // The last status of all is `success`, and clients stop reading there.
                Some(PullEvent::Step(PullStep::Success)) => {}
                Some(event) => tell.pull(event),
            }
        }
    }
}
