//! Operations of a client that encodes all texts of a store anew, page by page, while workers run.

use std::sync::Arc;

use perdure_provider::{TextChange, TextPage, TextRequest, TextRow, TextTable};

use crate::client::store::{Reply, Store};
use crate::options::{TEXTS_BYTES, TEXTS_WALK};

impl Store {
    /// Reads the next texts of a table after a row, except for those that begin with `except`. No text is longer than
    /// `head` characters.
    pub fn texts(
        self: &Arc<Self>,
        table: TextTable,
        after: Option<TextRow>,
        except: String,
        head: Option<usize>,
        reply: Reply<TextPage>,
    ) {
        let this = Arc::clone(self);
        let request = TextRequest {
            table,
            after: after.unwrap_or(TextRow::FIRST),
            except,
            head,
            walk_max: TEXTS_WALK,
            bytes_max: TEXTS_BYTES,
        };
        self.tokio
            .spawn(async move { reply(this.provider.stored_texts(request).await.map_err(Into::into)) });
    }

    /// Replaces texts that are still as they were read. Replies with the number of replaced texts.
    pub fn replace_texts(self: &Arc<Self>, changes: Vec<TextChange>, reply: Reply<usize>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.replace_texts(changes).await.map_err(Into::into)) });
    }

    /// Removes the remains of deleted instances.
    pub fn sweep_all(self: &Arc<Self>, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move { reply(this.sweep().await) });
    }
}
