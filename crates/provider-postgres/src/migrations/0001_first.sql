-- `{schema}` stands for the quoted name of the schema, `{keys}` for that of its sequence as a literal. Text that is compared or ordered has the collation "C": its order is that of its bytes.

-- Keys are given out in blocks, see KEYS_BLOCK in options.rs.
CREATE SEQUENCE {schema}.instances_keys INCREMENT 10000;

-- Current state of every instance. The free space of its pages takes the next version of a row, so that a turn touches no index.
CREATE TABLE {schema}.instances (
  key bigint PRIMARY KEY DEFAULT nextval({keys}),       -- never used again, so that a late commit cannot meet another instance
  id text COLLATE "C" NOT NULL UNIQUE,                  -- the user's name of it
  name text COLLATE "C" NOT NULL,                       -- of its orchestration
  version text COLLATE "C" NOT NULL,                    -- of its orchestration
  execution bigint NOT NULL,                            -- current execution, from 1
  status text COLLATE "C" NOT NULL,                     -- Pending, Running, Completed, Failed, Cancelled, Terminated, Suspended
  owner text COLLATE "C",                               -- workers.id; set only while Pending or Running
  epoch bigint NOT NULL,                                -- how often it was acquired
  next_event_id bigint NOT NULL,                        -- of the current execution
  turns bigint NOT NULL,                                -- committed turns of the current execution; 0: fresh
  wake_at bigint,                                       -- when it is due, ms; set only while Pending or Running and unowned
  message_seq bigint NOT NULL DEFAULT 0,                -- number of the last message that came for it
  unread bigint NOT NULL DEFAULT 0,                     -- how many rows of messages it has
  custom_status text,
  custom_status_version bigint NOT NULL DEFAULT 0,
  priority integer NOT NULL,                            -- higher is acquired first
  parent_id text,                                       -- id of the parent instance
  parent_key bigint,                                    -- instances.key of the parent that waits for it; it may be gone
  parent_execution bigint,                              -- the execution of the parent that started it
  parent_event bigint,                                  -- the event of that execution
  tags text,
  report text,                                          -- why it is Suspended
  unfit_code text COLLATE "C",                          -- fingerprint of the code that did not fit; set only while Suspended because of it
  suspicion bigint NOT NULL DEFAULT 0,                  -- what speaks against it since it last got on
  on_trial bigint NOT NULL DEFAULT 0,                   -- its owner tries it: 1 with others, 2 alone
  created_at bigint NOT NULL,                           -- ms since 1970, as all times here
  updated_at bigint NOT NULL,
  completed_at bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- What an acquisition walks through: for each registered orchestration the highest priority, and in it the longest due.
CREATE INDEX instances_due ON {schema}.instances (name, version, priority, wake_at, key) WHERE wake_at IS NOT NULL;
CREATE INDEX instances_owner ON {schema}.instances (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX instances_parent ON {schema}.instances (parent_key, parent_execution, parent_event) WHERE parent_key IS NOT NULL;
CREATE INDEX instances_unfit ON {schema}.instances (name, version, unfit_code, key) WHERE unfit_code IS NOT NULL;

-- Lists of instances and counts of them. A turn that neither starts, ends nor suspends an instance changes no row of these indexes.
CREATE INDEX instances_created ON {schema}.instances (created_at, key);
CREATE INDEX instances_open ON {schema}.instances (created_at, key) WHERE completed_at IS NULL;
CREATE INDEX instances_suspended ON {schema}.instances (created_at, key) WHERE status = 'Suspended';
-- What is pruned, the longest ended first, and how many ended in which way.
CREATE INDEX instances_ended ON {schema}.instances (completed_at, key) INCLUDE (status) WHERE completed_at IS NOT NULL;
-- Whose former executions may be pruned.
CREATE INDEX instances_continued ON {schema}.instances (key) WHERE execution > 1;

-- Instances that are gone and whose history is still to be swept away.
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
  ref_id bigint,                                        -- the earlier event that it refers to
  name text,
  payload text,
  meta text,
  PRIMARY KEY (instance_key, execution, event_id)
);

-- What waits for an instance; gone with the turn that consumes it.
CREATE TABLE {schema}.messages (
  instance_key bigint NOT NULL,
  seq bigint NOT NULL,                                  -- given under the lock of the instance's row: rises as messages become visible
  kind text COLLATE "C" NOT NULL,                       -- Event, Queue, Cancel, ChildCompleted, ChildFailed, … , Refused, Attempted
  name text COLLATE "C",                                -- of the mailbox, why something was refused, or the details of an attempt
  payload text,
  time bigint NOT NULL,
  execution bigint,                                     -- of the receiver: the one that asked
  ref_id bigint,                                        -- the event that asked
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),       -- who brought it: tells what became visible since a snapshot
  PRIMARY KEY (instance_key, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- The messages of one mailbox among any number of others. A name may be longer than an index takes.
CREATE INDEX messages_mailbox ON {schema}.messages (instance_key, kind, hashtextextended(name, 0), seq);
CREATE INDEX messages_xid ON {schema}.messages (xid, instance_key, seq);

-- What tells a writer whether its transaction passed whose COMMIT was not answered: a row for each that is under way, used again.
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
  lease_until bigint NOT NULL                           -- by the clock of this server
) WITH (fillfactor = 50);

-- The latest details that an open activity told with a heartbeat, for its next attempt. Gone when the activity is over.
CREATE TABLE {schema}.heartbeats (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  scheduled bigint NOT NULL,                            -- the event that scheduled the activity
  details text NOT NULL,
  PRIMARY KEY (instance_key, execution, scheduled)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- Attempts of activities that any worker may take which serves their queue. What they are given is in the event that scheduled them.
CREATE TABLE {schema}.tasks (
  instance_key bigint NOT NULL,
  execution bigint NOT NULL,
  event_id bigint NOT NULL,                             -- the event that scheduled the activity
  attempt bigint NOT NULL,                              -- from 1
  queue text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,                       -- of the activity
  priority integer NOT NULL,                            -- higher is taken first
  due_at bigint NOT NULL,                               -- not before
  deadline bigint,                                      -- when all its attempts are to be over
  owner text COLLATE "C",                               -- workers.id of who runs it
  PRIMARY KEY (instance_key, execution, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tasks_due ON {schema}.tasks (queue, name, priority DESC, due_at) WHERE owner IS NULL;
CREATE INDEX tasks_owner ON {schema}.tasks (owner) WHERE owner IS NOT NULL;

-- Names of activities that a worker of this store can run, or could: a task of another name waits for nobody.
CREATE TABLE {schema}.activities (
  name text COLLATE "C" PRIMARY KEY
);
