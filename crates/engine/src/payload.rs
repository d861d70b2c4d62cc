//! Texts that only the driver writes and reads: values, and trace contexts.

/// A value as text; `None` is JavaScript's `undefined`.
pub type Payload = Option<String>;

/// Trace context in which an instance was started or an operation scheduled. A replay does not look at it.
pub type TraceContext = Option<String>;
