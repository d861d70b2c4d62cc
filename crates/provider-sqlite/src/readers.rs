//! The threads that read, each on a connection of its own: a long read holds up no write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::connection::open_reader;
use crate::error::Failure;
use crate::options::READERS;
use crate::queue::{Queue, Taken};
use crate::threads::spawn;

/// A read; it answers its caller itself.
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

    /// Hand over a read; it comes back when the readers are closed.
    pub(crate) fn push(&self, read: Read) -> Result<(), Read> {
        self.queue.push(read)
    }

    /// Take no more reads.
    pub(crate) fn refuse(&self) {
        self.queue.close();
    }

    /// Finish what was handed over and end the threads.
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
    // One at a time, so that a long read does not keep others from the other thread.
    while let Taken::Items(reads) = queue.take(None, |_| false) {
        for read in reads {
            // A panic drops the read's reply, which its caller sees; the thread goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| read(connection)));
        }
    }
}
