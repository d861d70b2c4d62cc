-- The latest details that an open activity told with a heartbeat, for its next attempt. Gone when the activity is over.
CREATE TABLE heartbeats (
  instance_key INTEGER NOT NULL,
  execution INTEGER NOT NULL,
  scheduled INTEGER NOT NULL,                     -- the event that scheduled the activity
  details TEXT NOT NULL,
  PRIMARY KEY (instance_key, execution, scheduled)
) STRICT, WITHOUT ROWID;
