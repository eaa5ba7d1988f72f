//! A whole server in this process, over real TLS: authentication, authorization, limits and shutdown.

mod support;

mod applies;
mod dialect;
mod drain;
mod front_proxy;
mod http;
mod impersonation;
mod issuers;
mod limits;
mod matrix;
mod observed;
mod reload;
mod reviews;
mod routes;
mod sockets;
mod stream_authorization;
mod tokens;
mod traces;

#[path = "../../examples/widgets/colours.rs"]
mod colours;
#[path = "../../examples/widgets/inventory.rs"]
mod inventory;
#[path = "../../examples/widgets/names.rs"]
mod names;
#[path = "../../examples/widgets/paint.rs"]
mod paint;
#[path = "../../examples/widgets/widget.rs"]
mod widget;
#[path = "../../examples/widgets/workshop.rs"]
mod workshop;
