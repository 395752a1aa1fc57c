//! The log of errors, which programs of CUDA 13 read or get through callbacks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that the log keeps, as CUDA's.
const MOST: usize = 25_600;
/// Callbacks that a process can register.
const MOST_CALLBACKS: usize = 1 << 10;

/// What a program gets instead of messages that are gone or do not fit.
const TRUNCATED: &str = "[warpproof] earlier messages were dropped\n";

/// A callback of the program: the addresses of a function and of its data.
pub type Callback = (usize, usize);

/// The log.
#[derive(Debug, Default)]
pub struct Log {
    /// The latest messages, each with its line break.
    messages: VecDeque<String>,
    /// The number of the message that comes next.
    next: u32,
    bytes: usize,
    callbacks: BTreeMap<u64, Callback>,
    last: u64,
}

static LOG: Mutex<Log> = Mutex::new(Log::new());

/// The log of this process.
pub fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    const fn new() -> Log {
        Log { messages: VecDeque::new(), next: 0, bytes: 0, callbacks: BTreeMap::new(), last: 0 }
    }

    /// Adds a message and returns the callbacks that get it.
    pub fn add(&mut self, message: &str) -> Vec<Callback> {
        let message = format!("{message}\n");
        self.bytes += message.len();
        self.messages.push_back(message);
        self.next = self.next.wrapping_add(1);
        while self.bytes > MOST {
            self.bytes -= self.messages.pop_front().map_or(self.bytes, |gone| gone.len());
        }
        self.callbacks.values().copied().collect()
    }

    /// Where the next message will be.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// The messages from a place on, or all of them. If they do not fit, the latest ones that do.
    pub fn from(&self, place: Option<u32>, room: usize) -> String {
        let kept = self.messages.len();
        let wanted =
            place.map_or(kept, |place| usize::try_from(self.next.wrapping_sub(place)).unwrap_or(kept));
        let mut first = kept - wanted.min(kept);
        let size = |from: usize| self.messages.iter().skip(from).map(String::len).sum::<usize>();
        let mut dropped = wanted > kept;
        while first < kept && size(first) + if dropped { TRUNCATED.len() } else { 0 } > room {
            first += 1;
            dropped = true;
        }
        if first == kept {
            return String::new();
        }
        let note = if dropped { TRUNCATED } else { "" };
        note.chars().chain(self.messages.iter().skip(first).flat_map(|message| message.chars())).collect()
    }

    /// Registers a callback. `None` if there are too many.
    pub fn register(&mut self, callback: Callback) -> Option<u64> {
        if self.callbacks.len() >= MOST_CALLBACKS {
            return None;
        }
        self.last += 16;
        self.callbacks.insert(self.last, callback);
        Some(self.last)
    }

    /// Whether there was such a callback.
    pub fn unregister(&mut self, callback: u64) -> bool {
        self.callbacks.remove(&callback).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_from_a_place_on() {
        let mut log = Log::new();
        log.add("one");
        let place = log.end();
        log.add("two");
        assert_eq!(log.from(None, 100), "one\ntwo\n");
        assert_eq!(log.from(Some(place), 100), "two\n");
        assert_eq!(log.from(Some(log.end()), 100), "");
        assert_eq!(log.from(Some(place), 3), "");
        // The latest messages that fit, and a note about the others.
        let mut log = Log::new();
        log.add(&"x".repeat(100));
        log.add("two");
        assert_eq!(log.from(None, 100), format!("{TRUNCATED}two\n"));
    }

    #[test]
    fn the_log_has_a_limit() {
        let mut log = Log::new();
        for _ in 0..1000 {
            log.add(&"x".repeat(99));
        }
        assert_eq!(log.bytes, MOST);
        assert!(log.from(Some(0), usize::MAX).starts_with(TRUNCATED));
        log.add(&"y".repeat(MOST + 1));
        assert_eq!(log.from(None, usize::MAX), "");
    }

    #[test]
    fn callbacks_end_with_their_registration() {
        let mut log = Log::new();
        let callback = log.register((1, 2)).unwrap();
        assert_eq!(log.add("a"), [(1, 2)]);
        assert!(log.unregister(callback) && !log.unregister(callback));
        assert!(log.add("b").is_empty());
    }
}
