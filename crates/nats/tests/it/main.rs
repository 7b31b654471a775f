//! The store on a real nats-server.

mod connect;
mod log;
mod records;
mod support;
