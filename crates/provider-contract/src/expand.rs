//! The macro that expands lists of checks to tests.

/// Expands [`suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($fixture:ty; $($module:ident { $($check:ident,)+ })+) => {
        $(mod $module {
            #[allow(unused_imports, reason = "the fixture's type may be named by a path")]
            use super::*;
            $(
                #[tokio::test]
                async fn $check() {
                    let store = $crate::Store::open::<$fixture>().await;
                    store.finish($crate::$module::$check(&store)).await;
                }
            )+
        })+
    };
}
