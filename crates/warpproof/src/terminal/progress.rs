//! One status line on a terminal.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of the line: it fits on one line of most terminals.
const WIDTH: usize = 79;
/// Refresh interval of the time on the line.
const TICK: Duration = Duration::from_millis(250);
/// Minimum time between two updates, because terminals are slow.
const PAUSE: Duration = Duration::from_millis(50);

/// A line on standard error that is erased when it is finished or dropped. Its clones share the same line.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Option<Arc<Line>>);

#[derive(Debug)]
struct Line(Mutex<State>);

#[derive(Debug)]
struct State {
    begun: Instant,
    drawn: Option<Instant>,
    message: String,
    done: u64,
    /// 0 if there is nothing to count.
    all: u64,
    megabytes: bool,
    finished: bool,
}

impl State {
    fn text(&self) -> String {
        let seconds = self.begun.elapsed().as_secs();
        let counted = match (self.all, self.megabytes) {
            (0, _) => String::new(),
            (all, false) => format!("{}/{all} ", self.done),
            (all, true) => format!("{}/{} MB ", self.done / 1_000_000, all.div_ceil(1_000_000)),
        };
        let text = format!("{counted}{seconds}s {}", self.message);
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WIDTH).collect()
    }

    /// Draws the line, unless it was just drawn.
    fn draw(&mut self) {
        if self.finished || self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        self.drawn = Some(Instant::now());
        put(&format!("\r\x1b[K{}", self.text()));
    }
}

/// Errors are ignored: progress is optional.
fn put(text: &str) {
    let mut out = io::stderr().lock();
    let _unseen = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

impl Line {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.draw();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !state.finished {
            put("\r\x1b[K");
        }
    }
}

impl Progress {
    /// A line that is not displayed.
    pub(crate) fn hidden() -> Self {
        Self(None)
    }

    /// A displayed line, with the time since its creation.
    pub(crate) fn shown() -> Self {
        let line = Arc::new(Line(Mutex::new(State {
            begun: Instant::now(),
            drawn: None,
            message: String::new(),
            done: 0,
            all: 0,
            megabytes: false,
            finished: false,
        })));
        let seen = Arc::downgrade(&line);
        // This thread updates the time while nothing else changes.
        thread::spawn(move || {
            while let Some(line) = seen.upgrade() {
                line.change(|_| ());
                drop(line);
                thread::sleep(TICK);
            }
        });
        Self(Some(line))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Some(line) = &self.0 {
            line.change(change);
        }
    }

    /// What is being done.
    pub(crate) fn set_message(&self, message: impl Into<String>) {
        self.change(|state| state.message = message.into());
    }

    /// How much is done.
    pub(crate) fn set_position(&self, done: u64) {
        self.change(|state| state.done = done);
    }

    /// Sets the total amount of work.
    pub(crate) fn set_length(&self, all: u64) {
        self.change(|state| state.all = all);
    }

    /// Counts bytes, and shows them as megabytes.
    pub(crate) fn count_bytes(&self, all: u64) {
        self.change(|state| (state.all, state.megabytes) = (all, true));
    }

    /// Prints a line above this one.
    pub(crate) fn println(&self, text: impl AsRef<str>) {
        self.change(|state| {
            put(&format!("\r\x1b[K{}\n", text.as_ref()));
            state.drawn = None;
        });
    }

    /// Takes the line away.
    pub(crate) fn finish_and_clear(&self) {
        self.change(|state| {
            if !state.finished {
                put("\r\x1b[K");
            }
            state.finished = true;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal() {
        let mut state = State {
            begun: Instant::now(),
            drawn: None,
            message: "tiled: checks".to_owned(),
            done: 3,
            all: 12,
            megabytes: false,
            finished: false,
        };
        assert_eq!(state.text(), "3/12 0s tiled: checks");
        (state.done, state.all, state.megabytes) = (1_500_000, 2_000_001, true);
        assert_eq!(state.text(), "1/3 MB 0s tiled: checks");
        (state.all, state.message) = (0, format!("a\nb{}", "ä".repeat(100)));
        assert!(state.text().starts_with("0s a bä") && state.text().chars().count() == WIDTH);
    }
}
