-- What a termination or a suspension has taken from a worker that does not know it yet, with the epoch in which the worker had it.
CREATE TABLE {schema}.revocations (
  worker text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL,
  epoch bigint NOT NULL,
  PRIMARY KEY (worker, instance_key)
);
