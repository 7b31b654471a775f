//! The protocol room: everything that speaks MCP, and the only place that names
//! rmcp.

mod exchange;
mod output;
mod schema;
mod server;
mod tools;
mod transport;

pub use self::{
    output::{Output, ToolError},
    server::{Server, ToolLimits},
    transport::{HttpConfig, Serving, Transport, start},
};
