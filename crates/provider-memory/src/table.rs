//! A table whose changes can be rolled back, so that a refused batch leaves nothing (P1).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Rows in order of their keys, and their values before the transaction.
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// One entry for each change, in order; `None` if the row did not exist.
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            before: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn first_key(&self) -> Option<&K> {
        self.rows.keys().next()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(range)
    }

    /// Inserts a row, or replaces the existing one.
    pub(crate) fn insert(&mut self, key: K, row: V) {
        let before = self.rows.insert(key.clone(), row);
        self.before.push((key, before));
    }

    /// Removes a row. Returns false if there is none.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        let Some(row) = self.rows.remove(key) else {
            return false;
        };
        self.before.push((key.clone(), Some(row)));
        true
    }

    /// Removes the rows of a range.
    pub(crate) fn remove_range(&mut self, range: impl RangeBounds<K>) {
        let keys: Vec<K> = self.range(range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Changes a row, if it exists.
    pub(crate) fn edit<T>(&mut self, key: &K, change: impl FnOnce(&mut V) -> T) -> Option<T>
    where
        V: Clone,
    {
        let mut row = self.get(key)?.clone();
        let result = change(&mut row);
        self.insert(key.clone(), row);
        Some(result)
    }
}

/// The end of a transaction, for tables of any rows.
pub(crate) trait Journal {
    /// Keeps the changes.
    fn keep(&mut self);

    /// Rolls the changes back.
    fn take_back(&mut self);
}

impl<K: Ord, V> Journal for Table<K, V> {
    fn keep(&mut self) {
        self.before.clear();
    }

    fn take_back(&mut self) {
        while let Some((key, before)) = self.before.pop() {
            match before {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: &Table<u8, &'static str>) -> Vec<(u8, &'static str)> {
        table.iter().map(|(key, row)| (*key, *row)).collect()
    }

    #[test]
    fn a_rollback_restores_all_rows() {
        let mut table = Table::default();
        table.insert(1, "one");
        table.insert(2, "two");
        table.insert(3, "three");
        table.keep();
        table.edit(&1, |row| *row = "another");
        table.edit(&1, |row| *row = "a third");
        table.remove(&2);
        table.insert(2, "again");
        table.insert(4, "four");
        table.remove_range(3..);
        assert!(!table.remove(&3));
        assert_eq!(table.edit(&3, |_| ()), None);
        assert_eq!(rows(&table), [(1, "a third"), (2, "again")]);
        table.take_back();
        assert_eq!(rows(&table), [(1, "one"), (2, "two"), (3, "three")]);
        table.remove(&1);
        table.keep();
        table.take_back();
        assert_eq!(rows(&table), [(2, "two"), (3, "three")]);
    }
}
