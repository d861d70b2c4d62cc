-- Current state of every instance.
CREATE TABLE instances (
  key INTEGER PRIMARY KEY AUTOINCREMENT,          -- never used again, so that a late commit cannot meet another instance
  id TEXT NOT NULL UNIQUE,                        -- the user's name of it
  name TEXT NOT NULL,                             -- of its orchestration
  version TEXT NOT NULL,                          -- of its orchestration
  execution INTEGER NOT NULL,                     -- current execution, from 1
  status TEXT NOT NULL,                           -- Pending, Running, Completed, Failed, Cancelled, Terminated, Suspended
  owner TEXT,                                     -- workers.id; set only while Pending or Running
  epoch INTEGER NOT NULL,                         -- how often it was acquired
  next_event_id INTEGER NOT NULL,                 -- of the current execution
  turns INTEGER NOT NULL,                         -- committed turns of the current execution; 0: fresh
  wake_at INTEGER,                                -- when it is due, ms; set only while Pending or Running and unowned
  custom_status TEXT,
  custom_status_version INTEGER NOT NULL,
  priority INTEGER NOT NULL,                      -- higher is acquired first
  parent_id TEXT,                                 -- id of the parent instance
  tags TEXT,
  report TEXT,                                    -- why it is Suspended
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  completed_at INTEGER
) STRICT;

-- What an acquisition walks through: for each registered orchestration the highest priority, and in it the longest due.
CREATE INDEX instances_due ON instances (name, version, priority, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX instances_owner ON instances (owner) WHERE owner IS NOT NULL;

-- One row per event. Rows are appended in the order of commits, and only the small index is ordered by instance: that
-- writes half as many pages as a table clustered by instance, and a fourth when payloads have 1 KB.
CREATE TABLE history (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- 1..n without gap
  time INTEGER NOT NULL,                          -- ms since 1970
  kind TEXT NOT NULL,
  ref_id INTEGER,                                 -- the earlier event that it refers to
  name TEXT,
  payload TEXT,
  meta TEXT,
  PRIMARY KEY (instance_key, execution, event_id)
) STRICT;

-- What waits for an instance; gone with the turn that consumes it.
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,          -- rises in the order of commits, never used again
  instance_key INTEGER NOT NULL,
  kind TEXT NOT NULL,                             -- Event, Queue, Cancel
  name TEXT,                                      -- of the mailbox
  payload TEXT,
  time INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_instance ON messages (instance_key);

-- One row for each start of a runtime.
CREATE TABLE workers (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_start TEXT NOT NULL,
  lease_until INTEGER NOT NULL                    -- ms since 1970
) STRICT, WITHOUT ROWID;
