-- Lists of instances and counts of them. A turn that neither starts, ends nor suspends an instance changes no row of these
-- indexes.
CREATE INDEX instances_created ON instances (created_at);
CREATE INDEX instances_open ON instances (created_at) WHERE completed_at IS NULL;
CREATE INDEX instances_suspended ON instances (created_at) WHERE status = 'Suspended';
-- What is pruned, the longest ended first, and how many ended in which way.
CREATE INDEX instances_ended ON instances (completed_at, key, status) WHERE completed_at IS NOT NULL;
-- Whose former executions may be pruned.
CREATE INDEX instances_continued ON instances (key) WHERE execution > 1;

-- Instances that are gone and whose history is still to be swept away.
CREATE TABLE deleted_instances (
  key INTEGER PRIMARY KEY                         -- was instances.key
) STRICT;
