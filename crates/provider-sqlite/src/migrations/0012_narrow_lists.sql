-- Lists that match few have an index of their own. Those of the rarer states are of one state each, and a list of several merges them.
CREATE INDEX instances_troubled ON instances (status, created_at)
  WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated');
DROP INDEX instances_suspended;
CREATE INDEX instances_children ON instances (parent_id, created_at) WHERE parent_id IS NOT NULL;
