//! What a process is told by its machine: the time, numbers that nobody can guess, which process it is, and which others are gone.
//!
//! Nothing else of this crate asks for any of it, so that a simulation is a [`Machine`] of its own; monotonic time and sleep are tokio's.

use std::fs;
use std::sync::Arc;

use perdure_provider::{Clock, SystemClock, Worker, WorkerId};
use tokio::time::Instant;

/// What runs a process.
pub trait Machine: Clock {
    /// Now, by a clock that nobody sets.
    fn moment(&self) -> Instant {
        Instant::now()
    }

    /// A number that nobody can guess and that does not come again.
    fn random(&self) -> u128;

    /// The process, as the row of a worker names it.
    fn process(&self) -> Process;

    /// What people call the machine; empty where that cannot be told.
    fn name(&self) -> String {
        String::new()
    }

    /// Whether the process of a worker is surely gone.
    fn knows_gone(&self, worker: &Worker) -> bool;
}

/// A process, as the row of a worker names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The machine since its last boot and, in a container, its process namespace: pids mean something only within both. Empty where that
    /// cannot be told; then only leases tell of dead workers.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// When it began: numbers are used again. Empty where that cannot be told.
    pub start: String,
}

/// The machine that this program runs on.
#[derive(Clone, Debug)]
pub struct ThisMachine {
    process: Process,
}

impl ThisMachine {
    /// What this process is told of it.
    #[must_use]
    pub fn read() -> Self {
        let pid = std::process::id();
        let process = Process {
            host: host(),
            pid,
            start: start_of(pid).unwrap_or_default(),
        };
        Self { process }
    }
}

impl Clock for ThisMachine {
    fn now_ms(&self) -> i64 {
        SystemClock.now_ms()
    }
}

impl Machine for ThisMachine {
    fn random(&self) -> u128 {
        let (a, b) = (uuid::Uuid::new_v4().as_u64_pair(), uuid::Uuid::new_v4().as_u64_pair());
        // The bits that say which kind of UUID it is are in different halves.
        (u128::from(a.0 ^ b.1) << 64) | u128::from(a.1 ^ b.0)
    }

    fn process(&self) -> Process {
        self.process.clone()
    }

    fn name(&self) -> String {
        name()
    }

    /// It ran on this machine, and there its id is free or another's.
    fn knows_gone(&self, worker: &Worker) -> bool {
        self.process.knows_gone(worker)
    }
}

/// Id of a new worker: a UUIDv7, so that they sort by time.
pub(crate) fn new_worker_id(machine: &dyn Machine) -> WorkerId {
    let ms = u64::try_from(machine.now_ms()).unwrap_or(0);
    let mut random = [0; 10];
    random.copy_from_slice(&machine.random().to_le_bytes()[..10]);
    let id = uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid();
    WorkerId(Arc::from(id.hyphenated().to_string()))
}

/// Seed of an execution's random numbers.
pub(crate) fn new_seed(machine: &dyn Machine) -> u64 {
    let random = machine.random();
    (random >> 64) as u64 ^ random as u64
}

impl Process {
    fn knows_gone(&self, worker: &Worker) -> bool {
        if self.host.is_empty()
            || worker.host != self.host
            || (worker.pid == self.pid && worker.process_start == self.start)
        {
            return false;
        }
        match start_of(worker.pid) {
            Some(start) => !worker.process_start.is_empty() && start != worker.process_start,
            None => !exists(worker.pid),
        }
    }
}

fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if boot.trim().is_empty() {
        String::new()
    } else {
        format!("{}/{}", boot.trim(), namespace.display())
    }
}

#[cfg(unix)]
fn name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is as long as is said.
    let answer = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if answer == 0 {
        String::from_utf8_lossy(name).into_owned()
    } else {
        String::new()
    }
}

#[cfg(not(unix))]
fn name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Start time of a process in clock ticks since boot: field 22 of `/proc/PID/stat` (proc(5)); a zombie counts as gone.
fn start_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    match fields.first() {
        Some(&("Z" | "X")) => None,
        _ => fields.get(19).map(|s| (*s).to_owned()),
    }
}

#[cfg(unix)]
fn exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return false;
    };
    if fs::exists("/proc/self/stat").unwrap_or(false) {
        // What /proc shows was looked at already: no entry or a zombie.
        return false;
    }
    // SAFETY: signal 0 only asks whether the process is there.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

#[cfg(not(unix))]
fn exists(_pid: u32) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use perdure_provider::WorkerId;

    use super::*;

    fn worker_of(host: &str, pid: u32, start: &str) -> Worker {
        let id = WorkerId(Arc::from("w"));
        Worker {
            id,
            name: String::new(),
            host: host.into(),
            pid,
            process_start: start.into(),
            lease_until_ms: 0,
        }
    }

    #[test]
    fn a_running_process_is_not_gone_and_a_killed_one_is() {
        let this = ThisMachine::read().process;
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let worker = worker_of(&this.host, child.id(), &start_of(child.id()).expect("it runs"));
        assert!(!this.knows_gone(&worker));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        assert!(this.knows_gone(&worker));
    }

    #[test]
    fn a_machine_is_called_as_its_kernel_says() {
        let kernel = fs::read_to_string("/proc/sys/kernel/hostname").expect("it is there");
        assert_eq!(ThisMachine::read().name(), kernel.trim_end());
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let this = ThisMachine::read().process;
        assert!(this.knows_gone(&worker_of(&this.host, this.pid, "1")));
        assert!(!this.knows_gone(&worker_of(&this.host, this.pid, &this.start)));
    }

    #[test]
    fn nothing_is_known_of_other_machines() {
        let this = ThisMachine::read().process;
        assert!(!this.knows_gone(&worker_of("elsewhere", 1 << 22, "1")));
    }
}
