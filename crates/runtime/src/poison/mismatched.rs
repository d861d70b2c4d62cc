//! Resumption of instances whose code did not fit their history: they go on by themselves when other code is registered
//! under the name and version of their orchestration.
//!
//! - **U1** A worker looks for such instances when a runtime starts and when an orchestration is registered, and at no
//!   other time. So workers with different code under one name and version cannot resume and suspend an instance in
//!   turns for ever. A shutdown waits for a look that the store has begun, and no other look begins after that: it
//!   would be one for code that is gone.
//! - **U2** The instances that one registration finds are gone through once, in pages, regardless of how many other
//!   workers suspend meanwhile.

use std::sync::Arc;

use perdure_provider::{ProviderError, ProviderErrorKind, ResumeMismatched};

use crate::instance::instances::Instances;
use crate::log::Level;
use crate::options::RESUME_BATCH;
use crate::platform::retry::retrying;
use crate::registry::Registered;

/// Resumes, for each orchestration that was registered, the instances that wait for code other than they had (U1).
pub(crate) async fn resume(instances: Arc<Instances>) {
    let shared = &instances.shared;
    loop {
        let next = shared.registry.lock().next_unchecked();
        let Some(registered) = next else {
            instances.worker.resume_wanted.notified().await;
            continue;
        };
        match resume_all(&instances, &registered).await {
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => shared.log(
                Level::Warn,
                format!(
                    "suspended instances of {registered} wait to be resumed by a client, because the store could not \
                     resume them: {error}"
                ),
            ),
            Ok(()) => {}
        }
        shared.registry.lock().checked(&registered);
    }
}

async fn resume_all(instances: &Arc<Instances>, registered: &Registered) -> Result<(), ProviderError> {
    let shared = &instances.shared;
    let mut after = None;
    loop {
        let request = ResumeMismatched {
            name: registered.name.clone(),
            version: registered.version.clone(),
            code: registered.code.clone(),
            after,
            limit: RESUME_BATCH,
            time_ms: instances.now_ms(),
        };
        let resumed = retrying(|| async {
            // This comes before the check: either the shutdown sees this look, or this look sees the shutdown.
            let _look = instances.worker.begin_operation();
            if instances.worker.draining.has_begun() {
                return Err(ProviderError::new(ProviderErrorKind::Closed, "the runtime shuts down"));
            }
            shared.store.provider.resume_mismatched(request.clone()).await
        })
        .await?;
        let count = resumed.len();
        if count > 0 {
            shared.log(
                Level::Info,
                format!("{registered} has new code; suspended instances that continue: {count}"),
            );
        }
        // This is also done if no instance was resumed: a try whose answer was lost may have resumed some.
        shared.store.work_is_due();
        if count < RESUME_BATCH {
            return Ok(());
        }
        after = resumed.into_iter().last();
    }
}
