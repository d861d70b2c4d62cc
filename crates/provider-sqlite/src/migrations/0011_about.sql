ALTER TABLE workers ADD COLUMN about TEXT;      -- what the worker tells of itself, for people
