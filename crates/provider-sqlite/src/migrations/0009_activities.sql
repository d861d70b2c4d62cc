-- Names of activities that a worker of this store can run, or could: a task of another name waits for nobody.
CREATE TABLE activities (
  name TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
