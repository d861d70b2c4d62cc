//! Lists of instances, the newest first.

use perdure_provider::{LIST_BYTES_MAX, ListPage, ListRequest, Place};

use crate::status;
use crate::tables::Tables;

pub(crate) fn list(tables: &Tables, request: &ListRequest) -> ListPage {
    let ListRequest {
        filter,
        limit,
        walk_max,
        ..
    } = request;
    let mut page = ListPage::default();
    let mut bytes = 0;
    let mut last = request.first_place();
    let places = tables.indexes.created.range(..(last.at_ms, last.key)).rev();
    for (walked, ((at_ms, key), ())) in places.enumerate() {
        if page.instances.len() >= *limit || walked >= *walk_max || bytes > LIST_BYTES_MAX {
            page.next = Some(last);
            break;
        }
        if filter.created_after_ms.is_some_and(|after| *at_ms <= after) {
            // All instances that follow are too old as well.
            break;
        }
        last = Place {
            at_ms: *at_ms,
            key: *key,
        };
        let row = tables.instance(*key).expect("an entry of an index has its row");
        if filter.matches(&row.candidate()) {
            let status = status::of(tables, row);
            bytes += status.payload_bytes();
            page.instances.push(status);
        }
    }
    page
}
