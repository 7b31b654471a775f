//! Recorded cases, and how well a first answer names the true object and its cause.

mod case;
mod score;

pub use self::{
    case::{Case, CaseError, Truth, load},
    score::{Answer, Score, Scores, baseline, faults_list},
};

#[cfg(test)]
mod tests;
