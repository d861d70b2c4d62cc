ALTER TABLE {schema}.workers ADD COLUMN about text;     -- what the worker tells of itself, for people
