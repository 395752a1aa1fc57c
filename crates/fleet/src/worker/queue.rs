//! A queue between threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;

/// A FIFO queue that can be closed.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { inner: Mutex::new(Inner { waiting: VecDeque::new(), closed: false }), changed: Condvar::new() }
    }

    pub(super) fn push(&self, thing: T) {
        lock(&self.inner).waiting.push_back(thing);
        self.changed.notify_one();
    }

    /// Waits for the next item; `None` if the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut inner = lock(&self.inner);
        loop {
            if let Some(thing) = inner.waiting.pop_front() {
                return Some(thing);
            }
            if inner.closed {
                return None;
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Removes all waiting items.
    pub(super) fn drain(&self) -> Vec<T> {
        lock(&self.inner).waiting.drain(..).collect()
    }

    /// Whether the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.inner).closed
    }

    /// Closes the queue.
    pub(super) fn close(&self) {
        lock(&self.inner).closed = true;
        self.changed.notify_all();
    }
}
