//! Recorded cases, and how well a first answer names the true object and its cause.

mod case;
mod notifications;
mod score;

pub use self::{
    case::{Case, CaseError, Form, Truth, key, load, named},
    notifications::{Notifications, notifications},
    score::{Answer, Line, Score, Scores, baseline, faults_list},
};

#[cfg(test)]
mod tests;
