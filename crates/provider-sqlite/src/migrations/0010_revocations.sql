-- What a termination or a suspension has taken from a worker that does not know it yet, with the epoch in which the worker had it.
CREATE TABLE revocations (
  worker TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (worker, instance_key)
) STRICT, WITHOUT ROWID;
