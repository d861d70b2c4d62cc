//! Which machine and process this is, and whether another process of the same machine is gone.

use std::fs;

use perdure_provider::Worker;

/// This process, as a worker row names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThisProcess {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) start: String,
}

impl ThisProcess {
    pub(crate) fn read() -> Self {
        let pid = std::process::id();
        Self {
            host: host(),
            pid,
            start: start_of(pid).unwrap_or_default(),
        }
    }

    /// Whether the process of a worker is surely gone: it ran on this machine, and there its id is free or another's.
    pub(crate) fn knows_gone(&self, worker: &Worker) -> bool {
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

/// The machine since its last boot and, in a container, its process namespace: pids mean something only within both.
/// Empty where that cannot be told; then only leases tell of dead workers.
fn host() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if boot.trim().is_empty() {
        String::new()
    } else {
        format!("{}/{}", boot.trim(), namespace.display())
    }
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
        let this = ThisProcess::read();
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let worker = worker_of(&this.host, child.id(), &start_of(child.id()).expect("it runs"));
        assert!(!this.knows_gone(&worker));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        assert!(this.knows_gone(&worker));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let this = ThisProcess::read();
        assert!(this.knows_gone(&worker_of(&this.host, this.pid, "1")));
        assert!(!this.knows_gone(&worker_of(&this.host, this.pid, &this.start)));
    }

    #[test]
    fn nothing_is_known_of_other_machines() {
        let this = ThisProcess::read();
        assert!(!this.knows_gone(&worker_of("elsewhere", 1 << 22, "1")));
    }
}
