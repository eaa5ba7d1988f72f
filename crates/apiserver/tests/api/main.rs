//! The verbs of the library, with the sample kind on a real PostgreSQL.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

mod applies;
mod changes;
mod computed;
mod deletes;
mod discovery;
mod kit;
mod painting;
mod protobuf;
mod reads;
mod seen;
mod singleton;
mod watches;
mod writes;

#[path = "../../examples/widgets/colours.rs"]
mod colours;
#[path = "../../examples/widgets/names.rs"]
mod names;
#[path = "../../examples/widgets/paint.rs"]
mod paint;
#[path = "../../examples/widgets/summary.rs"]
mod summary;
#[path = "../../examples/widgets/widget.rs"]
mod widget;
#[path = "../../examples/widgets/workshop.rs"]
mod workshop;
