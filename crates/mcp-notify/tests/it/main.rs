//! The library from outside: over real rmcp clients and servers of both eras
//! of the protocol, and with a real metrics registry.

#[cfg(feature = "rmcp")]
mod legacy;
#[cfg(feature = "rmcp")]
mod listen;
#[cfg(feature = "prometheus")]
mod scrape;
#[cfg(feature = "rmcp")]
mod server;
#[cfg(feature = "rmcp")]
mod wire;
