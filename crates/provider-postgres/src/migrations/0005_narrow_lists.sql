-- Lists that match few have an index of their own. Those of the rarer states are of one state each, and a list of several merges them.
CREATE INDEX IF NOT EXISTS instances_troubled ON {schema}.instances (status, created_at, key)
  WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated');
DROP INDEX IF EXISTS {schema}.instances_suspended;
-- An id may be longer than an index takes.
CREATE INDEX IF NOT EXISTS instances_children ON {schema}.instances (hashtextextended(parent_id, 0), created_at, key) WHERE parent_id IS NOT NULL;
