-- `{schema}` stands for the quoted name of the schema, `{keys}` for that of its sequence as a literal. Text that is compared or ordered has the collation "C": its order is that of its bytes.

-- The identity of the store, one row.
CREATE TABLE {schema}.identity (
  id text COLLATE "C" NOT NULL                          -- drawn at random when the store is made
);
INSERT INTO {schema}.identity VALUES (replace(gen_random_uuid()::text, '-', ''));

-- Keys are given out in blocks, see KEYS_BLOCK in options.rs.
CREATE SEQUENCE {schema}.instances_keys INCREMENT 10000;

-- The current state of every instance. The free space of its pages takes the next version of a row, so that a turn touches no index.
CREATE TABLE {schema}.instances (
  key bigint PRIMARY KEY DEFAULT nextval({keys}),       -- never reused, so that a late commit cannot meet another instance
  id text COLLATE "C" NOT NULL UNIQUE,                  -- the user's name of the instance
  name text COLLATE "C" NOT NULL,                       -- name of the orchestration
  version text COLLATE "C" NOT NULL,                    -- version of the orchestration
  execution bigint NOT NULL,                            -- current execution, from 1
  status text COLLATE "C" NOT NULL,                     -- Pending, Running, Completed, Failed, Cancelled, Terminated, Suspended
  owner text COLLATE "C",                               -- workers.id; set only while Pending or Running
  released_by text COLLATE "C",                         -- workers.id of the worker whose turn released the instance last; it may be gone
  epoch bigint NOT NULL,                                -- number of acquisitions
  next_event_id bigint NOT NULL,                        -- of the current execution
  turns bigint NOT NULL,                                -- committed turns of the current execution; 0: fresh
  wake_at bigint,                                       -- due time, ms since 1970; set only while Pending or Running and unowned
  start_at bigint,                                      -- due time that an instance had when it was suspended before any worker acquired it; set only while Suspended
  message_seq bigint NOT NULL DEFAULT 0,                -- number of the last message that was sent to the instance
  unread bigint NOT NULL DEFAULT 0,                     -- number of its rows in messages
  custom_status text,
  custom_status_version bigint NOT NULL DEFAULT 0,
  state_version bigint NOT NULL DEFAULT 0,              -- turns that changed the state
  open_work text,                                       -- what the last turn waits for, as JSON, which no query reads
  priority integer NOT NULL,                            -- a higher one is acquired first
  parent_id text,                                       -- id of the parent instance
  parent_key bigint,                                    -- instances.key of the parent that waits for the end; it may be gone
  parent_execution bigint,                              -- the execution of the parent that started the child
  parent_event bigint,                                  -- the event of that execution
  tags text,
  report text,                                          -- reason of the suspension; set only while Suspended
  mismatched_code text COLLATE "C",                     -- fingerprint of the code that does not fit the history; set only while Suspended for that
  suspicion bigint NOT NULL DEFAULT 0,                  -- deaths and stalls of workers since the last turn that appended events
  probation bigint NOT NULL DEFAULT 0,                  -- 0: none; 1: beside other instances; 2: alone; 3: alone, activities
  created_at bigint NOT NULL,                           -- ms since 1970, as all times here
  updated_at bigint NOT NULL,
  completed_at bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- An acquisition walks along this index: for each registered orchestration the highest priority, and in it the longest due.
CREATE INDEX instances_due ON {schema}.instances (name, version, priority, wake_at, key) WHERE wake_at IS NOT NULL;
CREATE INDEX instances_owner ON {schema}.instances (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX instances_parent ON {schema}.instances (parent_key, parent_execution, parent_event) WHERE parent_key IS NOT NULL;
CREATE INDEX instances_mismatched ON {schema}.instances (name, version, mismatched_code, key) WHERE mismatched_code IS NOT NULL;

-- Lists of instances and their counts. A turn that neither starts, ends nor suspends an instance changes no row of these indexes.
CREATE INDEX instances_created ON {schema}.instances (created_at, key);
CREATE INDEX instances_open ON {schema}.instances (created_at, key) WHERE completed_at IS NULL;
-- Each status of this index is sorted by itself. A list of several statuses merges them.
CREATE INDEX instances_unsuccessful ON {schema}.instances (status, created_at, key)
  WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated');
-- An id may be longer than an index takes.
CREATE INDEX instances_children ON {schema}.instances (hashtextextended(parent_id, 0), created_at, key) WHERE parent_id IS NOT NULL;
-- The instances to prune, the longest ended first, and the counts of ended instances by status.
CREATE INDEX instances_ended ON {schema}.instances (completed_at, key) INCLUDE (status) WHERE completed_at IS NOT NULL;
-- The instances whose former executions may be pruned.
CREATE INDEX instances_continued ON {schema}.instances (key) WHERE execution > 1;

-- Instances that are deleted, with histories, and chunks and writers of streams, that are still to be swept.
CREATE TABLE {schema}.deleted_instances (
  key bigint PRIMARY KEY                                -- was instances.key
);

-- One row per event.
CREATE TABLE {schema}.history (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- 1..n without gap
  time bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  ref_id bigint,                                        -- the earlier event that this one refers to
  name text,
  payload text,
  meta text,
  PRIMARY KEY (instance_key, execution, event_id)
);

-- Messages that wait for an instance. A message is deleted with the turn that consumes it.
CREATE TABLE {schema}.messages (
  instance_key bigint NOT NULL,
  seq bigint NOT NULL,                                  -- given under the lock of the instance's row: rises as messages become visible
  kind text COLLATE "C" NOT NULL,                       -- Event, Queue, Cancel, ChildCompleted, ChildFailed, … , Refused, Attempted
  name text COLLATE "C",                                -- name of the mailbox, reason of a refusal, or details of an attempt
  payload text,
  time bigint NOT NULL,
  execution bigint,                                     -- the execution of the receiver that asked
  ref_id bigint,                                        -- the event that asked
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),       -- the transaction that sent it: tells which messages became visible since a snapshot
  PRIMARY KEY (instance_key, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- The messages of one mailbox among any number of others. A name may be longer than an index takes.
CREATE INDEX messages_mailbox ON {schema}.messages (instance_key, kind, hashtextextended(name, 0), seq);
CREATE INDEX messages_xid ON {schema}.messages (xid);

-- Marks tell a writer after a lost acknowledgement whether its transaction was committed: a row for each transaction under way, used again.
CREATE TABLE {schema}.marks (
  slot text COLLATE "C" PRIMARY KEY,
  number bigint NOT NULL,
  time bigint NOT NULL
) WITH (fillfactor = 50);

-- One row for each start of a runtime.
CREATE TABLE {schema}.workers (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL,
  host text NOT NULL,
  pid bigint NOT NULL,
  process_start text NOT NULL,
  lease_until bigint NOT NULL,                          -- by the clock of this server
  description text,                                     -- the worker's description of itself, as JSON
  newest_versions text                                  -- the newest version of each orchestration that the worker has, as JSON
) WITH (fillfactor = 50);

-- The latest heartbeat details of an open activity, for its next attempt. Deleted when the activity is over.
CREATE TABLE {schema}.heartbeats (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that scheduled the activity
  details text NOT NULL,
  time bigint NOT NULL,                                 -- of the last change, ms since 1970
  PRIMARY KEY (instance_key, execution, event_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The states of instances: values that their code publishes under names.
CREATE TABLE {schema}.state (
  instance_key bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text,                                           -- NULL: undefined
  version bigint NOT NULL,                              -- instances.state_version with which it was set
  PRIMARY KEY (instance_key, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- Asks: messages that get an answer. An ask without an outcome waits for its answer, unless its instance has ended. A
-- turn deletes the first answers of its instance when these are too many.
CREATE TABLE {schema}.asks (
  instance_key bigint NOT NULL,
  id text COLLATE "C" NOT NULL,                         -- the asker's name of the ask
  outcome text,                                         -- Value, Error; NULL: there is no answer
  answer text,                                          -- the value or the error; NULL: undefined, or there is no answer
  number bigint,                                        -- of the answer among those of the instance, from 1
  PRIMARY KEY (instance_key, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX asks_answered ON {schema}.asks (instance_key, number) WHERE number IS NOT NULL;

-- Streams: numbered entries of instances, which are appended and never changed.
CREATE TABLE {schema}.streams (
  instance_key bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  next_index bigint NOT NULL,                           -- index of the next entry, from 0
  closed boolean NOT NULL,                              -- true: the stream takes no entry any more
  PRIMARY KEY (instance_key, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The entries of streams: one row for each append. An append deletes the first chunks of its stream when these are too
-- many. Those of a deleted instance are swept.
CREATE TABLE {schema}.stream_chunks (
  instance_key bigint NOT NULL,
  name text COLLATE "C" NOT NULL,                       -- as streams.name
  first_index bigint NOT NULL,                          -- index of the first entry
  count bigint NOT NULL,                                -- number of the entries, at least 1
  execution bigint,                                     -- the execution whose activity appended; NULL: the code of the orchestration did
  event_id bigint,                                      -- the event that scheduled the activity
  attempt bigint,                                       -- number of the attempt, from 1
  reset_from bigint,                                    -- index of the first entry of former runs of the activity; NULL: there were none
  reset_at bigint,                                      -- index of the first entry of this run; NULL if reset_from is
  time bigint NOT NULL,
  expires_at bigint,                                    -- the time from which on the chunk may be deleted; NULL: never
  entries text NOT NULL,                                -- their texts, separated by line feeds
  PRIMARY KEY (instance_key, name, first_index)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX stream_chunks_expired ON {schema}.stream_chunks (expires_at) WHERE expires_at IS NOT NULL;

-- The activities that write to streams. A row outlives the entries. It is deleted when an activity of a later execution
-- writes, or swept with the instance.
CREATE TABLE {schema}.stream_writers (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that scheduled the activity
  name text COLLATE "C" NOT NULL,                       -- as streams.name
  first_index bigint NOT NULL,                          -- index of the activity's first entry
  run_index bigint NOT NULL,                            -- index of the first entry of its last run
  PRIMARY KEY (instance_key, execution, event_id, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- Lines that the code of instances logged. A turn deletes the first lines of its instance when these are too many.
CREATE TABLE {schema}.logs (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that followed, or was to follow
  line bigint NOT NULL,                                 -- number of the line among those before this event, from 0
  time bigint NOT NULL,
  level text COLLATE "C" NOT NULL,                      -- debug, info, warn, error
  message text NOT NULL,
  fields text,                                          -- JSON of an object
  PRIMARY KEY (instance_key, execution, event_id, line)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX logs_time ON {schema}.logs (time);

-- The deaths of workers that an instance lived through: the last ones of each instance.
CREATE TABLE {schema}.takeovers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  instance_key bigint NOT NULL,
  time bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that was to follow
  activity bigint,                                      -- the event that scheduled the activity whose attempt the worker ran; NULL: it owned the instance
  worker text COLLATE "C" NOT NULL,                     -- workers.id of the worker that died
  worker_name text NOT NULL
);
CREATE INDEX takeovers_instance ON {schema}.takeovers (instance_key);

-- Attempts of remote activities, for any worker that serves their queue. Their input is in the event that scheduled them.
CREATE TABLE {schema}.tasks (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that scheduled the activity
  attempt bigint NOT NULL,                              -- from 1
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,                       -- name of the activity
  priority integer NOT NULL,                            -- a higher one is acquired first
  due_at bigint NOT NULL,                               -- earliest time of the attempt
  deadline bigint,                                      -- end of all attempts together
  start_within bigint,                                  -- longest wait for a worker, ms; 0: the attempt was taken late
  start_by bigint,                                      -- when an attempt without an owner is late
  owner text COLLATE "C",                               -- workers.id of the worker that runs the attempt
  session text COLLATE "C",                             -- session of the activity in its queue
  route text COLLATE "C" NOT NULL DEFAULT '',           -- '': any worker; '?': the worker of the session, still to be found; '=': none before the task has a slot; else the workers.id of the session's worker
  place_key bigint,                                     -- queue_places.key; NULL: the limits of the queue do not concern the task
  PRIMARY KEY (instance_key, execution, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- Tasks that are due at the same moment are acquired in the order in which they were scheduled, as those of a wide fan-out are.
CREATE INDEX tasks_due ON {schema}.tasks (route, queue, name, priority DESC, due_at, instance_key, event_id) WHERE owner IS NULL;
CREATE INDEX tasks_late ON {schema}.tasks (start_by) WHERE owner IS NULL AND start_by IS NOT NULL;
CREATE INDEX tasks_owner ON {schema}.tasks (owner) WHERE owner IS NOT NULL;
CREATE INDEX tasks_session ON {schema}.tasks (queue, session, route) WHERE session IS NOT NULL;
CREATE UNIQUE INDEX tasks_place ON {schema}.tasks (place_key) WHERE place_key IS NOT NULL;

-- Sessions of activities: all tasks of one session of a queue go to one worker.
CREATE TABLE {schema}.sessions (
  queue text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  worker text COLLATE "C" NOT NULL,                     -- workers.id of the worker that holds the session
  idle_ms bigint NOT NULL,                              -- time without a task after which the session is unbound
  used_at bigint NOT NULL,                              -- when a task of it was last routed, taken or done
  PRIMARY KEY (queue, session)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sessions_worker ON {schema}.sessions (worker);

-- Queues of instances and of attempts: limits that hold over all workers.
CREATE TABLE {schema}.queues (
  name text COLLATE "C" PRIMARY KEY,
  settings text NOT NULL,                               -- the limits, as JSON
  admitted text NOT NULL DEFAULT '',                    -- the admissions that the rate counts: times and numbers
  turn bigint NOT NULL DEFAULT 0,                       -- the last turn in which a key got a slot
  paused_at bigint                                      -- since when it gives no slots
) WITH (fillfactor = 50);

-- Places in queues: of instances, until they have ended or are gone, and of attempts, as long as they have a task. The
-- row of an instance that had a slot is deleted by the next admission from its queue. The place is 0: in line; 1: held
-- behind others of its key; 2: has a slot; 3: delayed; 4: suspended before it had a slot.
CREATE TABLE {schema}.queue_places (
  key bigint PRIMARY KEY,                               -- instances.key; of an attempt tasks.place_key, from 2^62 on
  queue text COLLATE "C" NOT NULL REFERENCES {schema}.queues (name),
  queue_key text COLLATE "C" NOT NULL,                  -- key of the instance or of the attempt in the queue; '': none
  name text COLLATE "C" NOT NULL,                       -- as instances.name or tasks.name
  version text COLLATE "C" NOT NULL,                    -- as instances.version, until the instance has a slot; of an attempt U+007F
  priority integer NOT NULL,                            -- as instances.priority or tasks.priority
  turn bigint NOT NULL,                                 -- the turn in which its key gets this slot; 0: keys take no turns
  queued_at bigint NOT NULL,                            -- when it began to wait, or will
  place integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- An admission walks along this index: for each registered orchestration, or each activity, the line of each queue, in order.
CREATE INDEX queue_places_line ON {schema}.queue_places
  (name, version, queue, priority DESC, turn, queued_at, key) WHERE place = 0;
-- The held entries of a key by orchestration or activity, in order, and the queues in which those of one are held.
CREATE INDEX queue_places_held ON {schema}.queue_places
  (queue, queue_key, name, version, priority DESC, turn, queued_at, key) WHERE place = 1;
CREATE INDEX queue_places_held_of ON {schema}.queue_places (name, version, queue) WHERE place = 1;
CREATE INDEX queue_places_slots ON {schema}.queue_places (queue) WHERE place = 2;
-- The entries whose time comes next: of a queue, of an orchestration or an activity, and of one in a queue.
CREATE INDEX queue_places_delayed ON {schema}.queue_places (queue, queued_at, key) WHERE place = 3;
CREATE INDEX queue_places_delayed_of ON {schema}.queue_places (name, version, queued_at) WHERE place = 3;
CREATE INDEX queue_places_delayed_in ON {schema}.queue_places (name, version, queue, queued_at) WHERE place = 3;
-- The last turn of a key, and all entries of a queue.
CREATE INDEX queue_places_turn ON {schema}.queue_places (hashtextextended(queue, 0), queue_key, turn);

-- Keys of queues: what their rates count, and what those of their instances wait for that are held.
CREATE TABLE {schema}.queue_keys (
  queue text COLLATE "C" NOT NULL,                      -- as queues.name
  queue_key text COLLATE "C" NOT NULL,
  admitted text NOT NULL,                               -- as queues.admitted
  waits_for integer NOT NULL,                           -- 0: nothing; 1: another instance of the key; 2: a time; 3: a slot
  next_at bigint,                                       -- that time; of a key that waits for nothing: when the row may be deleted
  PRIMARY KEY (queue, queue_key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
-- Partial only so that no lookup of a key, which is for the primary key, takes this index.
CREATE INDEX queue_keys_next ON {schema}.queue_keys (queue, waits_for, next_at) WHERE waits_for IS NOT NULL;

-- Keys of starts: the last instance that was started under each. A row is made, and locked, before the start is.
CREATE TABLE {schema}.start_keys (
  rule text COLLATE "C" NOT NULL,                       -- singleton, throttle, debounce or batch
  scope text COLLATE "C" NOT NULL,                      -- name of an orchestration; for a batch, with its version
  start_key text COLLATE "C" NOT NULL,
  instance_key bigint,                                  -- NULL only within the transaction of the start
  since bigint NOT NULL DEFAULT 0,                      -- when the key got the instance, ms since 1970
  inputs integer NOT NULL DEFAULT 0,                    -- number of inputs of the instance, if it is one of a batch
  PRIMARY KEY (rule, scope, start_key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX start_keys_instance ON {schema}.start_keys (instance_key);

-- Names of activities that any worker of this store can run or could run. No worker takes a task of another name.
CREATE TABLE {schema}.activities (
  name text COLLATE "C" PRIMARY KEY
);

-- Instances that a termination or a suspension has taken from a worker that does not know it yet, with the worker's epoch.
CREATE TABLE {schema}.revocations (
  worker text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (worker, instance_key)
);

-- Requests of transactions under way, made by the functions of the schema. A commit carries them out and deletes them, so no other transaction ever sees a row.
CREATE TABLE {schema}.requests (
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),       -- the transaction
  n bigint GENERATED ALWAYS AS IDENTITY,                -- the order of the requests
  kind text COLLATE "C" NOT NULL,                       -- Start, Event, Queue, Cancel
  instance text COLLATE "C" NOT NULL,                   -- as instances.id, which may not be there yet
  name text COLLATE "C",                                -- name of the orchestration or of the mailbox
  payload text,
  version text COLLATE "C",                             -- of a start, as the columns of instances
  priority integer,
  tags text,
  trace text,                                           -- trace context of a start
  keeps boolean,                                        -- true: a start whose id is in use leaves the instance as it is, and is no error
  queue text COLLATE "C",                               -- of a start, as the columns of queue_places; NULL: it has no queue
  queue_key text COLLATE "C",
  due_after bigint,                                     -- time from the commit until the instance is due, ms
  due_at bigint,                                        -- the time at which it is due; NULL: due_after counts alone
  time_limit text,                                      -- for the first event of a start, as JSON
  unread_max bigint,                                    -- most unread messages of the instance; NULL: any number
  PRIMARY KEY (xid, n)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX requests_instance ON {schema}.requests (xid, instance);
