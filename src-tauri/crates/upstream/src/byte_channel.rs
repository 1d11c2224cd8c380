//! Bounded channel with a capacity in messages and in bytes, so that a receiver that is behind pauses the sender.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Messages with a size.
pub trait ByteSize {
    /// Size in bytes.
    fn byte_size(&self) -> usize;
}

impl ByteSize for Bytes {
    fn byte_size(&self) -> usize {
        self.len()
    }
}

/// A message with its share of the capacity.
type Queued<T> = (T, OwnedSemaphorePermit);

/// The sender of a [`byte_channel`].
#[derive(Debug)]
pub struct ByteSender<T> {
    messages: mpsc::Sender<Queued<T>>,
    room: Arc<Semaphore>,
    capacity_bytes: u32,
}

/// The receiver of a [`byte_channel`].
#[derive(Debug)]
pub struct ByteReceiver<T>(mpsc::Receiver<Queued<T>>);

/// Creates a channel that holds at most `capacity` messages and `capacity_bytes` bytes. A message larger than that is sent alone.
#[must_use]
pub fn byte_channel<T: ByteSize>(capacity: usize, capacity_bytes: u32) -> (ByteSender<T>, ByteReceiver<T>) {
    let (messages, receiver) = mpsc::channel(capacity);
    let room = Arc::new(Semaphore::new(capacity_bytes as usize));
    (ByteSender { messages, room, capacity_bytes }, ByteReceiver(receiver))
}

impl<T> Clone for ByteSender<T> {
    fn clone(&self) -> Self {
        let Self { messages, room, capacity_bytes } = self;
        Self { messages: messages.clone(), room: Arc::clone(room), capacity_bytes: *capacity_bytes }
    }
}

impl<T: ByteSize> ByteSender<T> {
    /// Sends a message when the channel has room for it. Returns `false` if the receiver was dropped.
    pub async fn send(&self, message: T) -> bool {
        let bytes = u32::try_from(message.byte_size()).unwrap_or(u32::MAX).min(self.capacity_bytes);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await.expect("the semaphore is never closed");
        self.messages.send((message, room)).await.is_ok()
    }

    /// Waits until the receiver is dropped.
    pub async fn closed(&self) {
        self.messages.closed().await;
    }
}

impl<T> ByteReceiver<T> {
    /// Waits for the next message. Returns `None` after the last.
    pub async fn recv(&mut self) -> Option<T> {
        self.0.recv().await.map(|(message, _)| message)
    }

    /// Polls for the next message.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(context).map(|queued| queued.map(|(message, _)| message))
    }

    /// Number of messages in the channel.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sender_waits_at_the_limits_of_messages_and_bytes() {
        let check = async |message_bytes: usize, queued: usize| {
            let (sender, mut receiver) = byte_channel(16, 1000);
            let sending = tokio::spawn(async move {
                for _ in 0..40 {
                    assert!(sender.send(Bytes::from(vec![b'x'; message_bytes])).await, "the receiver exists");
                }
            });
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(receiver.queued(), queued, "messages of {message_bytes} bytes");
            let mut received = 0;
            while receiver.recv().await.is_some() {
                received += 1;
            }
            assert_eq!(received, 40, "messages of {message_bytes} bytes");
            sending.await.unwrap();
        };
        check(0, 16).await;
        check(10, 16).await;
        check(250, 4).await;
        check(1000, 1).await;
        check(3000, 1).await;
    }

    #[tokio::test]
    async fn sender_that_waits_ends_when_the_receiver_is_dropped() {
        let (sender, receiver) = byte_channel(16, 10);
        assert!(sender.send(Bytes::from_static(b"0123456789")).await);
        let sending = tokio::spawn(async move { sender.send(Bytes::from_static(b"x")).await });
        tokio::task::yield_now().await;
        drop(receiver);
        assert!(!sending.await.unwrap());
    }
}
