-- The identity of the store, one row.
CREATE TABLE identity (
  id TEXT NOT NULL                                -- drawn at random when the store is made
) STRICT;
INSERT INTO identity VALUES (lower(hex(randomblob(16))));

-- The current state of every instance.
CREATE TABLE instances (
  key INTEGER PRIMARY KEY AUTOINCREMENT,          -- never reused, so that a late commit cannot meet another instance
  id TEXT NOT NULL UNIQUE,                        -- the user's name of the instance
  name TEXT NOT NULL,                             -- name of the orchestration
  version TEXT NOT NULL,                          -- version of the orchestration
  execution INTEGER NOT NULL,                     -- current execution, from 1
  status TEXT NOT NULL,                           -- Pending, Running, Completed, Failed, Cancelled, Terminated, Suspended
  owner TEXT,                                     -- workers.id; set only while Pending or Running
  released_by TEXT,                               -- workers.id of the worker whose turn released the instance last; it may be gone
  epoch INTEGER NOT NULL,                         -- number of acquisitions
  next_event_id INTEGER NOT NULL,                 -- of the current execution
  turns INTEGER NOT NULL,                         -- committed turns of the current execution; 0: fresh
  wake_at INTEGER,                                -- due time, ms since 1970; set only while Pending or Running and unowned
  start_at INTEGER,                               -- due time that an instance had when it was suspended before any worker acquired it; set only while Suspended
  unread INTEGER NOT NULL DEFAULT 0,              -- number of its rows in messages
  custom_status TEXT,
  custom_status_version INTEGER NOT NULL,
  state_version INTEGER NOT NULL DEFAULT 0,       -- turns that changed the state
  open_work TEXT,                                 -- what the last turn waits for, as JSON, which no query reads
  priority INTEGER NOT NULL,                      -- a higher one is acquired first
  parent_id TEXT,                                 -- id of the parent instance
  parent_key INTEGER,                             -- instances.key of the parent that waits for the end; it may be gone
  parent_execution INTEGER,                       -- the execution of the parent that started the child
  parent_event INTEGER,                           -- the event of that execution
  tags TEXT,
  report TEXT,                                    -- reason of the suspension; set only while Suspended
  mismatched_code TEXT,                           -- fingerprint of the code that does not fit the history; set only while Suspended for that
  suspicion INTEGER NOT NULL DEFAULT 0,           -- deaths and stalls of workers since the last turn that appended events
  probation INTEGER NOT NULL DEFAULT 0,           -- 0: none; 1: beside other instances; 2: alone; 3: alone, activities
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  completed_at INTEGER
) STRICT;

-- An acquisition walks along this index: for each registered orchestration the highest priority, and in it the longest due.
CREATE INDEX instances_due ON instances (name, version, priority, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX instances_owner ON instances (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX instances_parent ON instances (parent_key, parent_execution, parent_event) WHERE parent_key IS NOT NULL;
CREATE INDEX instances_mismatched ON instances (name, version, mismatched_code) WHERE mismatched_code IS NOT NULL;

-- Lists of instances and their counts. A turn that neither starts, ends nor suspends an instance changes no row of these indexes.
CREATE INDEX instances_created ON instances (created_at);
CREATE INDEX instances_open ON instances (created_at) WHERE completed_at IS NULL;
-- Each status of this index is sorted by itself. A list of several statuses merges them.
CREATE INDEX instances_unsuccessful ON instances (status, created_at)
  WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated');
CREATE INDEX instances_children ON instances (parent_id, created_at) WHERE parent_id IS NOT NULL;
-- The instances to prune, the longest ended first, and the counts of ended instances by status.
CREATE INDEX instances_ended ON instances (completed_at, key, status) WHERE completed_at IS NOT NULL;
-- The instances whose former executions may be pruned.
CREATE INDEX instances_continued ON instances (key) WHERE execution > 1;

-- Instances that are deleted and whose history and chunks are still to be swept.
CREATE TABLE deleted_instances (
  key INTEGER PRIMARY KEY                         -- was instances.key
) STRICT;

-- One row per event. Rows are appended in the order of commits, and only the small index is ordered by instance: that
-- writes half as many pages as a table clustered by instance, and a fourth when payloads have 1 KB.
CREATE TABLE history (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- 1..n without gap
  time INTEGER NOT NULL,                          -- ms since 1970
  kind TEXT NOT NULL,
  ref_id INTEGER,                                 -- the earlier event that this one refers to
  name TEXT,
  payload TEXT,
  meta TEXT,
  PRIMARY KEY (instance_key, execution, event_id)
) STRICT;

-- Messages that wait for an instance. A message is deleted with the turn that consumes it.
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,          -- rises in the order of commits, never reused
  instance_key INTEGER NOT NULL,
  kind TEXT NOT NULL,                             -- Event, Queue, Cancel, ChildCompleted, ChildFailed, … , Refused, Attempted
  name TEXT,                                      -- name of the mailbox, reason of a refusal, or details of an attempt
  payload TEXT,
  time INTEGER NOT NULL,
  execution INTEGER,                              -- the execution of the receiver that asked
  ref_id INTEGER                                  -- the event that asked
) STRICT;
CREATE INDEX messages_instance ON messages (instance_key);
-- The messages of one mailbox among any number of others.
CREATE INDEX messages_mailbox ON messages (instance_key, kind, name);

-- One row for each start of a runtime.
CREATE TABLE workers (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_start TEXT NOT NULL,
  lease_until INTEGER NOT NULL,                   -- ms since 1970
  description TEXT,                               -- the worker's description of itself, as JSON
  newest_versions TEXT                            -- the newest version of each orchestration that the worker has, as JSON
) STRICT, WITHOUT ROWID;

-- The latest heartbeat details of an open activity, for its next attempt. Deleted when the activity is over.
CREATE TABLE heartbeats (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that scheduled the activity
  details TEXT NOT NULL,
  time INTEGER NOT NULL,                          -- of the last change, ms since 1970
  PRIMARY KEY (instance_key, execution, event_id)
) STRICT, WITHOUT ROWID;

-- The states of instances: values that their code publishes under names.
CREATE TABLE state (
  instance_key INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT,                                     -- NULL: undefined
  version INTEGER NOT NULL,                       -- instances.state_version with which it was set
  PRIMARY KEY (instance_key, name)
) STRICT, WITHOUT ROWID;

-- Asks: messages that get an answer. An ask without an outcome waits for its answer, unless its instance has ended. A
-- turn deletes the first answers of its instance when these are too many.
CREATE TABLE asks (
  instance_key INTEGER NOT NULL,
  id TEXT NOT NULL,                               -- the asker's name of the ask
  outcome TEXT,                                   -- Value, Error; NULL: there is no answer
  answer TEXT,                                    -- the value or the error; NULL: undefined, or there is no answer
  number INTEGER,                                 -- of the answer among those of the instance, from 1
  PRIMARY KEY (instance_key, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX asks_answered ON asks (instance_key, number) WHERE number IS NOT NULL;

-- Streams: numbered entries of instances, over all their executions.
CREATE TABLE streams (
  instance_key INTEGER NOT NULL,
  name TEXT NOT NULL,
  next_index INTEGER NOT NULL,                    -- of the next entry, from 0
  closed INTEGER NOT NULL,                        -- 1: it takes no entry any more
  PRIMARY KEY (instance_key, name)
) STRICT, WITHOUT ROWID;

-- The entries of streams, one row for each append. Rows are deleted from the front of their stream.
CREATE TABLE stream_chunks (
  instance_key INTEGER NOT NULL,
  name TEXT NOT NULL,                             -- name of the stream
  first_index INTEGER NOT NULL,                   -- of the first entry
  count INTEGER NOT NULL,                         -- number of the entries, at least 1
  execution INTEGER,                              -- the execution whose activity wrote them; NULL: the orchestration did
  event_id INTEGER,                               -- the event that scheduled the activity
  attempt INTEGER,                                -- of the activity, from 1
  reset_from INTEGER,                             -- index of the first entry of former runs of the activity; NULL: there were none
  reset_at INTEGER,                               -- index of the first entry of this run; NULL if reset_from is
  time INTEGER NOT NULL,                          -- ms since 1970
  expires_at INTEGER,                             -- when the row may be deleted, ms since 1970; NULL: never
  entries TEXT NOT NULL,                          -- separated by line feeds
  PRIMARY KEY (instance_key, name, first_index)
) STRICT;
CREATE INDEX stream_chunks_expiring ON stream_chunks (expires_at) WHERE expires_at IS NOT NULL;

-- The activities that write to streams. A row outlives the entries, and goes when a later execution writes.
CREATE TABLE stream_writers (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that scheduled the activity
  name TEXT NOT NULL,                             -- name of the stream
  first_index INTEGER NOT NULL,                   -- of the activity's first entry
  run_index INTEGER NOT NULL,                     -- of the first entry of its last run
  PRIMARY KEY (instance_key, execution, event_id, name)
) STRICT, WITHOUT ROWID;

-- Lines that the code of instances logged. A turn deletes the first lines of its instance when these are too many.
CREATE TABLE logs (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that followed, or was to follow
  line INTEGER NOT NULL,                          -- number of the line among those before this event, from 0
  time INTEGER NOT NULL,
  level TEXT NOT NULL,                            -- debug, info, warn, error
  message TEXT NOT NULL,
  fields TEXT,                                    -- JSON of an object
  PRIMARY KEY (instance_key, execution, event_id, line)
) STRICT;
CREATE INDEX logs_time ON logs (time);

-- The deaths of workers that an instance lived through: the last ones of each instance.
CREATE TABLE takeovers (
  instance_key INTEGER NOT NULL,
  time INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that was to follow
  activity INTEGER,                               -- the event that scheduled the activity whose attempt the worker ran; NULL: it owned the instance
  worker TEXT NOT NULL,                           -- workers.id of the worker that died
  worker_name TEXT NOT NULL
) STRICT;
CREATE INDEX takeovers_instance ON takeovers (instance_key);

-- Attempts of remote activities, for any worker that serves their queue. Their input is in the event that scheduled them.
CREATE TABLE tasks (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  event_id INTEGER NOT NULL,                      -- the event that scheduled the activity
  attempt INTEGER NOT NULL,                       -- from 1
  queue TEXT NOT NULL,
  name TEXT NOT NULL,                             -- name of the activity
  priority INTEGER NOT NULL,                      -- a higher one is acquired first
  due_at INTEGER NOT NULL,                        -- earliest time of the attempt, ms since 1970
  deadline INTEGER,                               -- end of all attempts together, ms since 1970
  start_within INTEGER,                           -- longest wait for a worker, ms; 0: the attempt was taken late
  start_by INTEGER,                               -- when an attempt without an owner is late, ms since 1970
  owner TEXT,                                     -- workers.id of the worker that runs the attempt
  session TEXT,                                   -- session of the activity in its queue
  route TEXT NOT NULL DEFAULT '',                 -- '': any worker; '?': the worker of the session, still to be found; '=': none before it has a slot; else its workers.id
  place_key INTEGER,                              -- queue_places.key, if limits of the queue concern the attempt
  PRIMARY KEY (instance_key, execution, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_due ON tasks (route, queue, name, priority DESC, due_at) WHERE owner IS NULL;
CREATE INDEX tasks_late ON tasks (start_by) WHERE owner IS NULL AND start_by IS NOT NULL;
CREATE INDEX tasks_owner ON tasks (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX tasks_place ON tasks (place_key) WHERE place_key IS NOT NULL;
CREATE INDEX tasks_session ON tasks (queue, session, route) WHERE session IS NOT NULL;

-- Sessions of activities: all tasks of one session of a queue go to one worker.
CREATE TABLE sessions (
  queue TEXT NOT NULL,
  session TEXT NOT NULL,
  worker TEXT NOT NULL,                           -- workers.id of the worker that holds the session
  idle_ms INTEGER NOT NULL,                       -- time without a task after which the session is unbound
  used_at INTEGER NOT NULL,                       -- when a task of it was last routed, taken or done, ms since 1970
  PRIMARY KEY (queue, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_worker ON sessions (worker);

-- Names of activities that any worker of this store can run or could run. No worker takes a task of another name.
CREATE TABLE activities (
  name TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Instances that a termination or a suspension has taken from a worker that does not know it yet, with the worker's epoch.
CREATE TABLE revocations (
  worker TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (worker, instance_key)
) STRICT, WITHOUT ROWID;

-- Queues, which give slots to the instances and attempts in line.
CREATE TABLE queues (
  name TEXT NOT NULL PRIMARY KEY,
  settings TEXT NOT NULL,                         -- the limits, as JSON
  admitted TEXT NOT NULL DEFAULT '',              -- the admissions that the rate counts: times and numbers
  turn INTEGER NOT NULL DEFAULT 0,                -- the last turn in which a key got a slot
  paused_at INTEGER                               -- since when it gives no slots
) STRICT, WITHOUT ROWID;

-- Places in queues: of instances, and of attempts. An instance that has a slot keeps its row until it has ended and the
-- queue is looked at again. The row of an attempt goes with its task.
CREATE TABLE queue_places (
  key INTEGER NOT NULL PRIMARY KEY,               -- instances.key, or from 2^62 on tasks.place_key
  queue TEXT NOT NULL,
  queue_key TEXT NOT NULL,                        -- key of the entry in the queue; '': it has none
  name TEXT NOT NULL,                             -- as instances.name, version and priority; of an attempt: tasks.name, a version that none has, tasks.priority
  version TEXT NOT NULL,
  priority INTEGER NOT NULL,
  turn INTEGER NOT NULL,                          -- the round in which the key gets this slot; 0 if keys do not take turns
  queued_at INTEGER NOT NULL,                     -- when it began to wait, or will, ms since 1970
  place INTEGER NOT NULL                          -- 0: in line; 1: held behind its key; 2: has a slot; 3: delayed; 4: suspended
) STRICT;
-- The line: for each orchestration in the order in which slots are given.
CREATE INDEX queue_places_line ON queue_places (queue, name, version, priority DESC, turn, queued_at, key)
  WHERE place = 0;
CREATE INDEX queue_places_held ON queue_places
  (queue, queue_key, name, version, priority DESC, turn, queued_at, key) WHERE place = 1;
CREATE INDEX queue_places_held_sorts ON queue_places (queue, name, version) WHERE place = 1;
CREATE INDEX queue_places_slots ON queue_places (queue) WHERE place = 2;
CREATE INDEX queue_places_delayed ON queue_places (queue, queued_at) WHERE place = 3;
CREATE INDEX queue_places_delayed_sorts ON queue_places (queue, name, version, queued_at) WHERE place = 3;
-- The last turn of a key.
CREATE INDEX queue_places_turns ON queue_places (queue, queue_key, turn);

-- Keys of queues that have instances which are held, or admissions that the rate of the key counts.
CREATE TABLE queue_keys (
  queue TEXT NOT NULL,
  queue_key TEXT NOT NULL,
  admitted TEXT NOT NULL,                         -- as queues.admitted
  waits_for INTEGER NOT NULL,                     -- 0: nothing; 1: the turn of those in line; 2: a token; 3: a slot
  next_at INTEGER,                                -- when there is a token; if it waits for nothing, when the row may be deleted; ms since 1970
  PRIMARY KEY (queue, queue_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_keys_waiting ON queue_keys (queue, waits_for, next_at);

-- Keys of starts: the last instance that was started under each.
CREATE TABLE start_keys (
  rule TEXT NOT NULL,                             -- singleton, throttle, debounce or batch
  scope TEXT NOT NULL,                            -- name of an orchestration; for a batch, with its version
  start_key TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  since INTEGER NOT NULL,                         -- when the key got the instance, ms since 1970
  inputs INTEGER NOT NULL DEFAULT 0,              -- number of inputs of the instance, if it is one of a batch
  PRIMARY KEY (rule, scope, start_key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX start_keys_instance ON start_keys (instance_key);
