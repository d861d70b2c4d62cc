//! The inbox of a worker: messages of the instances that it owns.

use std::sync::Arc;

use perdure_engine::{Bug, Completion, is_planted};
use perdure_provider::{InboxPosition, ProviderErrorKind};

use crate::log::Level;
use crate::options::{INBOX_PAGE, RETRY_DELAYS};
use crate::platform::retry::retrying;
use crate::session::Session;

/// Reads the messages of owned instances when some may have come.
pub(super) async fn run(session: Arc<Session>) {
    let mut position = InboxPosition::default();
    loop {
        session.worker.inbox_wanted.notified().await;
        loop {
            let provider = &session.shared.store.provider;
            let inbox = match retrying(|| provider.read_inbox(&session.worker.id, &position, INBOX_PAGE)).await {
                Ok(inbox) => inbox,
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => {
                    // The worker tries again for ever: without their messages it would hold its instances for nothing.
                    let message = format!("messages could not be read from the store; the read is retried: {error}");
                    session.shared.log(Level::Error, message);
                    crate::platform::time::sleep(RETRY_DELAYS.1).await;
                    continue;
                }
            };
            for (key, message) in inbox.messages {
                match message {
                    Ok(message) => session.instances.receive(key, Completion::Message(message)),
                    Err(_) => session.instances.reread(key),
                }
            }
            let heard = inbox
                .revoked
                .into_iter()
                .filter(|_| !is_planted(Bug::RevocationUnheard));
            heard.for_each(|revoked| session.instances.revoked(revoked));
            position = inbox.position;
            if !inbox.more {
                break;
            }
        }
    }
}
