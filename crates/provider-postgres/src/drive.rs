//! Futures that a task drives on the provider's thread, and that another thread may drive at once.
//!
//! Waking a thread takes longer than sending a statement. So the thread that hands a batch over does the work for it up
//! to the first wait for the server, if no other thread is at work: [`at_once`] does some work, and then drives the
//! futures that the work woke. The answer comes to the provider's thread as usual, and the futures that it wakes there
//! are driven by their tasks.
//!
//! - **D1** A driven future is polled by one thread at a time, and always with its own waker. So each wake tells which
//!   future it is for.
//! - **D2** Futures woken by the thread that is in [`at_once`] are driven by that thread. Futures woken by other
//!   threads are driven by their tasks. No wake is lost: a future that another thread is polling at that moment is left
//!   to the task, which polls it again after that.
//! - **D3** A thread that hands something over waits for no other thread.
//! - **D4** A driven future is dropped when its task ends, even if a waker of it is still held.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, unconstrained};

use crate::options::AT_ONCE_MAX;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Called when a future is about to be driven because of something that no driven future did: its socket has something
/// to read.
type WakeHook = Box<dyn Fn() + Send + Sync>;

/// A future that is driven by a task, or by a thread that is in [`at_once`].
struct Driven {
    /// `None`: the future has ended.
    future: Mutex<Option<Work>>,
    task: Mutex<Option<Waker>>,
    hook: Option<WakeHook>,
}

thread_local! {
    /// The futures that this thread has woken since it entered [`at_once`].
    static WOKEN: RefCell<Option<Vec<Arc<Driven>>>> = const { RefCell::new(None) };
    /// True while this thread drives a future. Wakes in that time come from that future.
    static DRIVING: Cell<bool> = const { Cell::new(false) };
}

/// Spawns a task of the runtime that drives a future.
pub(crate) fn spawn(runtime: &Handle, future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_with(runtime, future, None)
}

/// Like [`spawn`]. Calls `hook` first when the future is woken by something else than a driven future, most often by
/// its socket.
pub(crate) fn spawn_with_hook(
    runtime: &Handle,
    hook: WakeHook,
    future: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    spawn_with(runtime, future, Some(hook))
}

fn spawn_with(
    runtime: &Handle,
    future: impl Future<Output = ()> + Send + 'static,
    hook: Option<WakeHook>,
) -> JoinHandle<()> {
    let driven = DropOnEnd(Arc::new(Driven {
        // The thread that hands something over may run a task of another runtime, whose budget is not for this.
        future: Mutex::new(Some(Box::pin(unconstrained(future)))),
        task: Mutex::default(),
        hook,
    }));
    runtime.spawn(async move { poll_fn(|context| driven.0.drive_as_task(context)).await })
}

/// Does some work on this thread, and drives the futures that the work woke until they wait. After [`AT_ONCE_MAX`]
/// polls the rest is left to their tasks.
pub(crate) fn at_once(runtime: &Handle, work: impl FnOnce()) {
    if WOKEN.with_borrow(Option::is_some) {
        return work();
    }
    let _timers_and_sockets = runtime.enter();
    WOKEN.set(Some(Vec::new()));
    work();
    for _ in 0..AT_ONCE_MAX {
        match WOKEN.with_borrow_mut(|woken| woken.as_mut().and_then(Vec::pop)) {
            Some(driven) => driven.drive_here(),
            None => break,
        }
    }
    for driven in WOKEN.take().into_iter().flatten() {
        driven.wake_task();
    }
}

/// Returns true while this thread is in [`at_once`].
pub(crate) fn is_at_once() -> bool {
    WOKEN.with_borrow(Option::is_some)
}

/// Marks this thread as one that drives a future, until it is dropped.
struct DrivingGuard(bool);

impl DrivingGuard {
    fn begin() -> Self {
        Self(DRIVING.replace(true))
    }
}

impl Drop for DrivingGuard {
    fn drop(&mut self) {
        DRIVING.set(self.0);
    }
}

impl Driven {
    fn drive_as_task(self: &Arc<Self>, context: &Context<'_>) -> Poll<()> {
        {
            let mut task = self.task.lock();
            if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                *task = Some(context.waker().clone());
            }
        }
        // Another thread holds the future only for as long as it takes to send something.
        self.drive(self.future.lock())
    }

    fn drive_here(self: &Arc<Self>) {
        let is_for_task = match self.future.try_lock() {
            // The task has to learn that the future has ended. A future that panics has ended.
            Some(future) => !matches!(catch_unwind(AssertUnwindSafe(|| self.drive(future))), Ok(Poll::Pending)),
            None => true,
        };
        if is_for_task {
            self.wake_task();
        }
    }

    fn drive(self: &Arc<Self>, mut held: MutexGuard<'_, Option<Work>>) -> Poll<()> {
        let Some(mut future) = held.take() else {
            return Poll::Ready(());
        };
        let waker = Waker::from(Arc::clone(self));
        let _driving = DrivingGuard::begin();
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            *held = Some(future);
        }
        polled
    }

    fn wake_task(&self) {
        let task = self.task.lock().clone();
        // Without a waker, the task has yet to poll the future for the first time.
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Wake for Driven {
    fn wake(self: Arc<Self>) {
        if let Some(hook) = &self.hook
            && !DRIVING.try_with(Cell::get).unwrap_or(true)
        {
            hook();
        }
        let kept = WOKEN.try_with(|woken| {
            let mut woken = woken.borrow_mut();
            woken.as_mut().map(|woken| woken.push(Arc::clone(&self))).is_some()
        });
        if !kept.unwrap_or(false) {
            self.wake_task();
        }
    }
}

/// Drops the future with the task that drives it.
struct DropOnEnd(Arc<Driven>);

impl Drop for DropOnEnd {
    fn drop(&mut self) {
        let ended = self.0.future.lock().take();
        // Dropped with no lock held: the future may wake itself.
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::Notify;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    fn runtime() -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be made")
    }

    /// Spawns a driven future that passes on what it is sent, with the thread that did so.
    fn echo(
        runtime: &Runtime,
    ) -> (
        UnboundedSender<u64>,
        mpsc::Receiver<(u64, thread::ThreadId)>,
        JoinHandle<()>,
    ) {
        let (send, mut queue) = unbounded_channel();
        let (pass, passed) = mpsc::channel();
        let waits = Arc::new(Notify::new());
        let is_waiting = Arc::clone(&waits);
        let task = spawn(runtime.handle(), async move {
            is_waiting.notify_one();
            while let Some(what) = queue.recv().await {
                let _ = pass.send((what, thread::current().id()));
            }
        });
        // Waits until the task has polled the future: before that, only the task drives it.
        runtime.block_on(waits.notified());
        (send, passed, task)
    }

    #[test]
    fn a_task_that_is_woken_at_once_is_driven_by_the_same_thread() {
        let runtime = runtime();
        let (send, passed, _task) = echo(&runtime);
        // The task may still be on its way out of its first poll.
        let mut here = false;
        for n in 0..1_000 {
            at_once(runtime.handle(), || send.send(n).expect("it listens"));
            let (what, by) = passed.recv().expect("it is passed on");
            assert_eq!(what, n);
            here |= by == thread::current().id();
        }
        assert!(here);
        send.send(1_000).expect("it listens");
        let (_, by) = passed.recv().expect("it is passed on");
        assert_ne!(by, thread::current().id(), "a wake at any other time is for the task");
    }

    #[test]
    fn a_task_that_a_driven_task_wakes_is_driven_with_it() {
        let runtime = runtime();
        let (second, passed, _second) = echo(&runtime);
        let (first, mut queue) = unbounded_channel();
        let _first = spawn(runtime.handle(), async move {
            while let Some(what) = queue.recv().await {
                second.send(what).expect("it listens");
            }
        });
        for n in 0..1_000 {
            at_once(runtime.handle(), || first.send(n).expect("it listens"));
            assert_eq!(passed.recv().expect("it is passed on").0, n);
        }
    }

    #[test]
    fn a_wake_outside_of_driven_tasks_is_announced() {
        let runtime = runtime();
        let (send, mut queue) = unbounded_channel();
        let (pass, passed) = mpsc::channel();
        let announced = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&announced);
        let hook = Box::new(move || {
            count.fetch_add(1, Ordering::AcqRel);
        });
        let waits = Arc::new(Notify::new());
        let is_waiting = Arc::clone(&waits);
        let _told = spawn_with_hook(runtime.handle(), hook, async move {
            is_waiting.notify_one();
            while let Some(what) = queue.recv().await {
                let _ = pass.send(what);
            }
        });
        runtime.block_on(waits.notified());
        let (pass_on, mut queue) = unbounded_channel();
        let _telling = spawn(runtime.handle(), {
            let send = send.clone();
            async move {
                while let Some(what) = queue.recv().await {
                    let _ = send.send(what);
                }
            }
        });
        for n in 0..1_000 {
            at_once(runtime.handle(), || pass_on.send(n).expect("it listens"));
            assert_eq!(passed.recv(), Ok(n));
        }
        assert_eq!(announced.load(Ordering::Acquire), 0, "all came from a driven one");
        send.send(1_000).expect("it listens");
        assert_eq!(passed.recv(), Ok(1_000));
        assert_eq!(announced.load(Ordering::Acquire), 1);
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        const THREADS: u64 = 4;
        const EACH: u64 = 20_000;
        let runtime = runtime();
        let (send, passed, task) = echo(&runtime);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (send, handle) = (send.clone(), runtime.handle());
                scope.spawn(move || {
                    for n in 0..EACH {
                        let send = || send.send(thread * EACH + n).expect("it listens");
                        // Some values are sent without `at_once`, as from the provider's own thread.
                        if n % 3 == 0 { send() } else { at_once(handle, send) }
                    }
                });
            }
        });
        drop(send);
        let mut all: Vec<u64> = passed.iter().map(|(what, _)| what).collect();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..THREADS * EACH));
        runtime.block_on(task).expect("it ends with its queue");
    }

    #[test]
    fn one_that_wakes_itself_again_and_again_does_not_hold_its_caller() {
        let runtime = runtime();
        let (send, mut queue) = unbounded_channel();
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let mut begun = false;
        let task = spawn(
            runtime.handle(),
            poll_fn(move |context| {
                begun = begun || queue.poll_recv(context).is_ready();
                if !begun {
                    return Poll::Pending;
                }
                context.waker().wake_by_ref();
                if counted.fetch_add(1, Ordering::Relaxed) < 10 * AT_ONCE_MAX {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            }),
        );
        at_once(runtime.handle(), || send.send(()).expect("it listens"));
        runtime.block_on(task).expect("the task goes on with it");
        assert!(polls.load(Ordering::Relaxed) > 10 * AT_ONCE_MAX);
    }

    #[test]
    fn a_task_that_panics_ends_and_its_caller_continues() {
        let runtime = runtime();
        let (send, mut queue) = unbounded_channel::<()>();
        let task = spawn(runtime.handle(), async move {
            queue.recv().await;
            panic!("planned");
        });
        at_once(runtime.handle(), || send.send(()).expect("it listens"));
        // The panic may have happened on either thread.
        let _ = runtime.block_on(task);
        assert!(send.is_closed());
    }

    #[test]
    fn an_aborted_task_takes_its_future_along_although_a_waker_is_kept() {
        let runtime = runtime();
        let (send, passed, task) = echo(&runtime);
        task.abort();
        let _ = runtime.block_on(task);
        assert!(send.is_closed());
        assert!(passed.recv().is_err());
    }
}
