//! Questions as all users share them: one is kept once for a context, however many users it is
//! about.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{question::AccessQuestion, reviewed_context::ReviewedContext};

/// A question in a context.
#[derive(Debug)]
pub(super) struct Asked {
    /// Different for each question at a time.
    pub(super) id: u64,
    pub(super) context: Arc<ReviewedContext>,
    pub(super) question: AccessQuestion,
}

/// All contexts, and the questions about them that any user has.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    contexts: HashMap<Arc<str>, Arc<ReviewedContext>>,
    last_id: u64,
    asked: HashMap<(Arc<str>, AccessQuestion), Arc<Asked>>,
    /// Questions after which those that nobody has are removed.
    clean_at: usize,
}

// === impl Questions ===

impl Questions {
    /// A question in a context.
    pub(super) fn of(&self, context: &str, question: AccessQuestion) -> Arc<Asked> {
        let mut known = self.0.lock();
        let context = known.context(context);
        let key = (Arc::clone(context.name()), question);
        if let Some(asked) = known.asked.get(&key) {
            return Arc::clone(asked);
        }
        if known.asked.len() >= known.clean_at {
            known.remove_unused();
            known.clean_at = known.asked.len() * 2 + 16;
        }
        known.last_id += 1;
        let asked = Arc::new(Asked {
            id: known.last_id,
            context,
            question: key.1.clone(),
        });
        known.asked.insert(key, Arc::clone(&asked));
        asked
    }

    /// A context, if anything was asked about it.
    pub(super) fn context(&self, name: &str) -> Option<Arc<ReviewedContext>> {
        self.0.lock().contexts.get(name).cloned()
    }

    /// Forgets the questions that nobody has any more.
    pub(super) fn remove_unused(&self) {
        let mut known = self.0.lock();
        known.remove_unused();
        known.asked.shrink_to(16);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().asked.len()
    }
}

// === impl Known ===

impl Known {
    fn context(&mut self, name: &str) -> Arc<ReviewedContext> {
        if let Some(known) = self.contexts.get(name) {
            return Arc::clone(known);
        }
        let context = Arc::new(ReviewedContext::new(name));
        let name = Arc::clone(context.name());
        self.contexts.insert(name, Arc::clone(&context));
        context
    }

    fn remove_unused(&mut self) {
        // Nobody else can get one meanwhile: this is its only other owner, and locked.
        self.asked.retain(|_, asked| Arc::strong_count(asked) > 1);
    }
}
