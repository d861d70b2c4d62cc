-- Attempts of activities that any worker may take which serves their queue. What they are given is in the event that scheduled them.
CREATE TABLE tasks (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that scheduled the activity
  attempt INTEGER NOT NULL,                       -- from 1
  queue TEXT NOT NULL,
  name TEXT NOT NULL,                             -- of the activity
  priority INTEGER NOT NULL,                      -- higher is taken first
  due_at INTEGER NOT NULL,                        -- not before, ms
  deadline INTEGER,                               -- when all its attempts are to be over, ms
  owner TEXT,                                     -- workers.id of who runs it
  PRIMARY KEY (instance_key, execution, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_due ON tasks (queue, name, priority DESC, due_at) WHERE owner IS NULL;
CREATE INDEX tasks_owner ON tasks (owner) WHERE owner IS NOT NULL;
