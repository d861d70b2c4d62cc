//! All texts of a store are encoded anew by a client, page by page, while workers run.

use std::sync::Arc;

use perdure_provider::{TextChange, TextPage, TextRequest, TextRow, TextTable};

use crate::client::store::{Reply, Store};
use crate::options::{TEXTS_BYTES, TEXTS_WALK};

impl Store {
    /// The next texts of a table after a row, but those that begin with `except`; of each no more than `head` characters.
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

    /// Put texts in the place of others that are still as they were read; how many were.
    pub fn replace_texts(self: &Arc<Self>, changes: Vec<TextChange>, reply: Reply<usize>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.replace_texts(changes).await.map_err(Into::into)) });
    }

    /// Take away what deleted instances have left.
    pub fn sweep_all(self: &Arc<Self>, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move { reply(this.sweep().await) });
    }
}
