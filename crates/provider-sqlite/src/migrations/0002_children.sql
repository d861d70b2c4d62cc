-- A child knows who waits for it, and its parent is told by a message what became of it.
ALTER TABLE instances ADD COLUMN parent_key INTEGER;        -- instances.key of the parent; it may be gone
ALTER TABLE instances ADD COLUMN parent_execution INTEGER;  -- the execution of the parent that started it
ALTER TABLE instances ADD COLUMN parent_event INTEGER;      -- the event of that execution

CREATE UNIQUE INDEX instances_parent ON instances (parent_key, parent_execution, parent_event) WHERE parent_key IS NOT NULL;

-- Kinds of messages besides Event, Queue and Cancel: ChildCompleted, ChildFailed, ChildCancelled, ChildTerminated, Refused.
ALTER TABLE messages ADD COLUMN execution INTEGER;          -- of the receiver: the one that asked
ALTER TABLE messages ADD COLUMN ref_id INTEGER;             -- the event that asked
