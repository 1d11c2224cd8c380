//! Work on prompts on blocking threads: templates are rendered and images decoded, in turn with other requests.

use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

use super::error::Error;

/// Number of prompts that are rendered at once. Each may use as much memory as the budget of a template.
static PROMPT_WORK: Semaphore = Semaphore::const_new(4);
/// The same for prompts with images. Decoding takes up to seconds, and prompts of texts do not wait for it.
static PICTURE_WORK: Semaphore = Semaphore::const_new(2);

/// Whether a request still waits for its work on a blocking thread, which does not end when the request is dropped.
#[derive(Debug)]
pub(super) struct Waiting(Weak<()>);

impl Waiting {
    /// Checks it between the steps of long work.
    ///
    /// # Errors
    /// When the request was dropped. Then the error has no reader.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.0.strong_count() == 0 { Err(Error::EngineGone) } else { Ok(()) }
    }
}

/// Renders prompts on a blocking thread, in turn with other requests.
pub(super) async fn run_prompt_work<T: Send + 'static, E: From<Error> + Send + 'static>(
    has_images: bool,
    work: impl FnOnce(&Waiting) -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let request = Arc::new(());
    let waiting = Waiting(Arc::downgrade(&request));
    let turns = if has_images { &PICTURE_WORK } else { &PROMPT_WORK };
    let turn = turns.acquire().await.expect("the semaphore is never closed");
    let result = run_blocking(move || {
        let _turn = turn;
        work(&waiting)
    })
    .await;
    drop(request);
    result
}

/// Runs work on a blocking thread. Work that takes a while must not block the threads that serve clients.
pub(crate) async fn run_blocking<T: Send + 'static, E: From<Error> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    joined(tokio::task::spawn_blocking(work).await)
}

/// Runs work to its end, even if the caller is dropped.
pub(crate) async fn run_to_end<T: Send + 'static, E: From<Error> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E> {
    joined(tokio::spawn(work).await)
}

fn joined<T, E: From<Error>>(result: Result<Result<T, E>, JoinError>) -> Result<T, E> {
    match result {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The daemon is shutting down.
        Err(_) => Err(Error::EngineGone.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work with images that ends when its request is dropped, and then sends.
    async fn wait_for_drop(ended: std::sync::mpsc::Sender<()>) -> Result<(), Error> {
        run_prompt_work(true, move |waiting: &Waiting| {
            while waiting.check().is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).map_err(|_| Error::EngineGone)
        })
        .await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn texts_do_not_wait_for_images_and_dropped_work_ends() {
        let (sender, ended) = std::sync::mpsc::channel();
        let images: Vec<_> = (0..3).map(|_| tokio::spawn(wait_for_drop(sender.clone()))).collect();
        while PICTURE_WORK.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let text = run_prompt_work(false, |_| Ok::<_, Error>("rendered"));
        assert!(matches!(text.await, Ok("rendered")), "all turns of images are taken, and those of texts are free");
        for image in images {
            image.abort();
        }
        for _ in 0..2 {
            ended.recv().expect("the work ends when its request is dropped");
        }
        drop(PICTURE_WORK.acquire_many(2).await.expect("both turns are free again"));
    }
}
