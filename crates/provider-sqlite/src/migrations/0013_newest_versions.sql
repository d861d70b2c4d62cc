ALTER TABLE workers ADD COLUMN newest TEXT;     -- the newest version of each orchestration that the worker has, as JSON
