//! A history in a real folder: processes that are killed, folders that are not its own.

mod crash;
mod folders;
mod writing;
