//! The threads that read, each on a connection of its own, so that a long read does not block a write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::connection::open_reader;
use crate::error::Failure;
use crate::options::READERS;
use crate::queue::{Queue, Received};
use crate::threads::spawn;

/// A read. It answers its caller itself.
pub(crate) type Read = Box<dyn FnOnce(&Connection) + Send>;

pub(crate) struct Readers {
    queue: Arc<Queue<Read>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let readers = Self {
            queue: Arc::new(Queue::new()),
            threads: Mutex::default(),
        };
        for n in 1..=READERS {
            let connection = open_reader(path)?;
            let queue = Arc::clone(&readers.queue);
            let thread = spawn(&format!("read-{n}"), move || serve(&connection, &queue))?;
            readers.threads.lock().push(thread);
        }
        Ok(readers)
    }

    /// Hands over a read, or returns it if the readers are closed.
    pub(crate) fn push(&self, read: Read) -> Result<(), Read> {
        self.queue.push(read)
    }

    /// Refuses further reads.
    pub(crate) fn refuse(&self) {
        self.queue.close();
    }

    /// Finishes the reads that were handed over and ends the threads.
    pub(crate) fn close(&self) {
        self.refuse();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

fn serve(connection: &Connection, queue: &Queue<Read>) {
    // A thread takes one read at a time, so that a long read does not keep others from the other thread.
    while let Received::Items(reads) = queue.take(None, |_| false) {
        for read in reads {
            // A panic drops the read's reply, which its caller sees; the thread goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| read(connection)));
        }
    }
}
