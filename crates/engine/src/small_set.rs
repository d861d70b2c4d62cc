//! An ordered set whose first element takes no allocation: most sleeping instances wait for one thing of a kind.

use std::collections::BTreeSet;
use std::mem;

#[derive(Clone, Debug)]
pub(crate) struct SmallSet<T> {
    first: Option<T>,
    /// All elements are greater than `first`; empty if there is no `first`.
    rest: BTreeSet<T>,
}

impl<T> Default for SmallSet<T> {
    fn default() -> Self {
        Self {
            first: None,
            rest: BTreeSet::new(),
        }
    }
}

impl<T: Ord> SmallSet<T> {
    /// Adds an element, unless it is there.
    pub(crate) fn insert(&mut self, element: T) {
        match &mut self.first {
            None => self.first = Some(element),
            Some(first) if element > *first => drop(self.rest.insert(element)),
            Some(first) if element < *first => drop(self.rest.insert(mem::replace(first, element))),
            Some(_) => {}
        }
    }

    /// Removes an element. Returns true if it was there.
    pub(crate) fn remove(&mut self, element: &T) -> bool {
        if self.first.as_ref() != Some(element) {
            return self.rest.remove(element);
        }
        self.first = self.rest.pop_first();
        true
    }

    pub(crate) fn contains(&self, element: &T) -> bool {
        self.first.as_ref() == Some(element) || self.rest.contains(element)
    }

    pub(crate) const fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len() + usize::from(self.first.is_some())
    }

    /// The elements, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn clear(&mut self) {
        self.first = None;
        self.rest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_small_set_holds_the_elements_of_an_ordered_set() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut up_to = |most: f64| (random.unit() * most) as u32;
            let (mut set, mut model) = (SmallSet::default(), BTreeSet::new());
            for _ in 0..60 {
                let element = up_to(12.0);
                match up_to(17.0) {
                    0..8 => {
                        set.insert(element);
                        model.insert(element);
                    }
                    8..16 => assert_eq!(set.remove(&element), model.remove(&element)),
                    _ => {
                        set.clear();
                        model.clear();
                    }
                }
                assert!(set.iter().eq(&model));
                assert_eq!(set.first(), model.first());
                assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                assert!((0..12).all(|element| set.contains(&element) == model.contains(&element)));
            }
        }
    }
}
