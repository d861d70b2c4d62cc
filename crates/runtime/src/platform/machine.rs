//! The machine of a process: the time, random numbers that cannot be guessed, the identity of the process, and the
//! processes that are gone.
//!
//! No other module of this crate asks for any of these, so a simulation is a [`Machine`] of its own. Monotonic time and
//! sleep are tokio's.

use std::fs;
use std::sync::Arc;

use perdure_engine::Incarnation;
use perdure_provider::{Clock, SystemClock, Worker, WorkerId};
use tokio::time::Instant;

/// The machine that runs a process.
pub trait Machine: Clock {
    /// Returns the time of a monotonic clock.
    fn moment(&self) -> Instant {
        Instant::now()
    }

    /// Returns a number that cannot be guessed and does not come again.
    fn random(&self) -> u128;

    /// Returns the process as the row of a worker names it.
    fn process(&self) -> Process;

    /// Returns the name that people have given the machine; empty if the machine does not tell it.
    fn name(&self) -> String {
        String::new()
    }

    /// True if the process of a worker is surely gone. If that cannot be told the answer is `false`, and the worker's
    /// lease decides.
    fn knows_gone(&self, worker: &Worker) -> bool;
}

/// A process, as the row of a worker names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The machine since its last boot and, in a container, its process namespace: pids mean something only within
    /// both. Empty if that cannot be told; then only leases tell of dead workers.
    pub host: String,
    /// The number of the process on that machine.
    pub pid: u32,
    /// The start time of the process, because numbers are used again. Empty if that cannot be told.
    pub start: String,
}

/// The machine that this program runs on.
#[derive(Clone, Debug)]
pub struct ThisMachine {
    process: Process,
}

impl ThisMachine {
    /// Reads the identity of this process from the machine.
    #[must_use]
    pub fn read() -> Self {
        let pid = std::process::id();
        let start = match visibility_of(pid) {
            Visibility::Running { start } => start,
            Visibility::Gone | Visibility::Hidden => String::new(),
        };
        let host = host(pid);
        Self {
            process: Process { host, pid, start },
        }
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

    /// True if the worker ran on this machine and its pid is free there, or belongs to another process.
    fn knows_gone(&self, worker: &Worker) -> bool {
        self.process.knows_gone(worker)
    }
}

/// Returns the id of a new worker: a UUIDv7, so that ids sort by time.
pub(crate) fn new_worker_id(machine: &dyn Machine) -> WorkerId {
    let ms = u64::try_from(machine.now_ms()).unwrap_or(0);
    let mut random = [0; 10];
    random.copy_from_slice(&machine.random().to_le_bytes()[..10]);
    let id = uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid();
    WorkerId(Arc::from(id.hyphenated().to_string()))
}

/// Returns two numbers that each start of an orchestration draws: the seed of its random numbers, and the incarnation,
/// which tells the start from other starts of the same id and is never 0.
pub(crate) fn new_start(machine: &dyn Machine) -> (u64, Incarnation) {
    let random = machine.random();
    let (high, low) = ((random >> 64) as u64, random as u64);
    (high ^ low, Incarnation(high.max(1)))
}

impl Process {
    fn knows_gone(&self, worker: &Worker) -> bool {
        if self.host.is_empty()
            || worker.host != self.host
            || (worker.pid == self.pid && worker.process_start == self.start)
        {
            return false;
        }
        match visibility_of(worker.pid) {
            Visibility::Running { start } => !worker.process_start.is_empty() && start != worker.process_start,
            Visibility::Gone => true,
            Visibility::Hidden => false,
        }
    }
}

/// Returns the machine since its last boot and the namespace of its process numbers. Only Linux tells these.
fn host(pid: u32) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    // A /proc that was mounted in another namespace shows other processes under the numbers of this one.
    let is_ours = fs::read_link("/proc/self").is_ok_and(|target| target.as_os_str() == pid.to_string().as_str());
    if boot.trim().is_empty() || namespace.as_os_str().is_empty() || !is_ours {
        return String::new();
    }
    format!("{}/{}", boot.trim(), namespace.display())
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

/// The answer of the machine about a process.
enum Visibility {
    /// The process runs; `start` is its start time, in clock ticks since boot.
    Running { start: String },
    /// No process has that number, or a zombie has it.
    Gone,
    /// A process has that number, and this process may not inspect it: it belongs to another user, and `/proc` is
    /// mounted with `hidepid`, as systemd's `ProtectProc=` does, too.
    Hidden,
}

/// Looks at a process by `/proc/PID/stat` (proc(5)): field 3 is its state, field 22 its start time.
fn visibility_of(pid: u32) -> Visibility {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return if is_free(pid) {
            Visibility::Gone
        } else {
            Visibility::Hidden
        };
    };
    // The name in parentheses may itself hold spaces and parentheses.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    match (fields.first(), fields.get(19)) {
        (Some(&("Z" | "X")), _) => Visibility::Gone,
        (_, Some(start)) => Visibility::Running {
            start: (*start).to_owned(),
        },
        _ => Visibility::Hidden,
    }
}

/// True if no process has that number. Any refusal to say so, such as EPERM, means that a process has it.
#[cfg(unix)]
fn is_free(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else {
        return true;
    };
    // SAFETY: signal 0 only asks whether the process is there.
    let answer = unsafe { libc::kill(pid, 0) };
    answer != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn is_free(_pid: u32) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ffi::CStr;
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

    fn start_of(pid: u32) -> String {
        match visibility_of(pid) {
            Visibility::Running { start } => start,
            Visibility::Gone | Visibility::Hidden => panic!("process {pid} runs and is shown"),
        }
    }

    #[test]
    fn a_running_process_is_not_gone_and_a_killed_one_is() {
        let this = ThisMachine::read().process;
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let worker = worker_of(&this.host, child.id(), &start_of(child.id()));
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

    /// The `/proc` of such a process shows it under a number other than the one that the process has of itself.
    #[test]
    fn a_process_with_the_proc_of_another_namespace_has_no_machine_to_compare() {
        let pid = std::process::id();
        assert_ne!(host(pid), "");
        assert_eq!(host(pid + 1), "");
    }

    #[test]
    fn nothing_is_known_of_other_machines() {
        let this = ThisMachine::read().process;
        assert!(!this.knows_gone(&worker_of("elsewhere", 1 << 22, "1")));
    }

    /// Runs `work` on a thread of another user whose own `/proc` hides the processes of other users. Returns `None` if
    /// this process may not set that up. All of the setup is the thread's and ends with it.
    fn behind_hidepid<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        const NOBODY: libc::uid_t = 65_534;
        let mount = |kind: &CStr, target: &CStr, flags, data: &CStr| {
            // SAFETY: all of these are texts that end with NUL.
            let done = unsafe {
                libc::mount(
                    kind.as_ptr(),
                    target.as_ptr(),
                    kind.as_ptr(),
                    flags,
                    data.as_ptr().cast(),
                )
            };
            done == 0
        };
        // SAFETY: it concerns this thread alone, and parts its root and working directory from the others', too.
        let leave = || unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        // The group changes, too: the group of root sees all that root sees.
        // SAFETY: the plain system calls change this thread alone, where libc's functions would change each of them.
        let become_nobody = || unsafe {
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) == 0
                && libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
                && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
        };
        let become_hidden = move || {
            leave()
                && mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE, c"")
                && mount(c"proc", c"/proc", 0, c"hidepid=2")
                && become_nobody()
        };
        let thread = std::thread::spawn(move || become_hidden().then(work));
        thread.join().expect("the thread does not panic")
    }

    /// Regression test: workers of two users with `ProtectProc=` took each other over every two seconds, because a
    /// process that /proc does not show counted as gone.
    #[test]
    fn a_process_that_may_not_be_inspected_is_alive_until_its_number_is_free() {
        let this = ThisMachine::read().process;
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let worker = worker_of(&this.host, child.id(), &start_of(child.id()));
        let gone = || {
            let (this, worker) = (this.clone(), worker.clone());
            behind_hidepid(move || {
                let shown = fs::exists(format!("/proc/{}", worker.pid)).expect("its own /proc can be read");
                assert!(!shown, "the process is hidden from the thread");
                this.knows_gone(&worker)
            })
        };
        let while_it_ran = gone();
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        match while_it_ran {
            Some(while_it_ran) => assert_eq!((while_it_ran, gone()), (false, Some(true))),
            None => eprintln!(
                "skipped: this process may not mount a /proc (it takes root, and a container that lets root do so)"
            ),
        }
    }
}
