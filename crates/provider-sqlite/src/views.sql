
-- The views by which a transaction of the user's requests starts and messages: an insertion into a view runs its
-- trigger in that transaction. See docs/internals/transactions.md. The functions are those that every library's SQLite
-- has from 3.38 on. Before 3.47, RAISE takes no text but a fixed one, so no error names a value.
--
-- The placeholder `next_turn` stands for the query by which the writer of a worker, too, finds the turn of a place
-- (queues.rs).

CREATE VIEW perdure_start (id, name, input, options) AS SELECT NULL, NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_raise_event (id, name, data) AS SELECT NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_enqueue_event (id, queue, data) AS SELECT NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_cancel (id, reason) AS SELECT NULL, NULL WHERE 0;

-- The views of the client, which hands over values as they are stored, and durations and times as ms.
CREATE VIEW perdure_start_encoded (id, name, input, options, trace) AS SELECT NULL, NULL, NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_message_encoded (kind, id, name, data, unread_max) AS SELECT NULL, NULL, NULL, NULL, NULL WHERE 0;

-- Values that begin with `~` are beyond JSON, and those that begin with `#` were stored through a codec.
CREATE VIEW perdure_status (id, name, version, status, execution_id, output, error, custom_status,
  custom_status_version, priority, tags, parent_id, created_at, updated_at, completed_at) AS
SELECT i.id, i.name, i.version, i.status, i.execution, CASE i.status WHEN 'Completed' THEN h.payload END,
  CASE i.status WHEN 'Completed' THEN NULL ELSE coalesce(h.payload, i.report) END, i.custom_status,
  i.custom_status_version, i.priority, coalesce(i.tags, '{}'), i.parent_id, i.created_at, i.updated_at, i.completed_at
FROM instances i LEFT JOIN history h ON i.completed_at IS NOT NULL
  AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1;

CREATE TRIGGER perdure_start_insert INSTEAD OF INSERT ON perdure_start BEGIN
  SELECT RAISE(ABORT, 'perdure: the input must be JSON text')
  WHERE NEW.input IS NOT NULL AND (typeof(NEW.input) = 'blob' OR NOT json_valid(NEW.input));
  SELECT RAISE(ABORT, 'perdure: the input takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.input) AS BLOB)) > 2097152;
  -- The texts of durations and times become ms. Any other text stays, and is refused below.
  INSERT INTO perdure_start_encoded (id, name, input, options)
  SELECT NEW.id, NEW.name, json(NEW.input), CASE
    WHEN typeof(NEW.options) <> 'text' OR NOT json_valid(NEW.options) THEN NEW.options
    WHEN json_type(NEW.options) <> 'object' THEN NEW.options
    ELSE json_patch(NEW.options, (
      SELECT json_group_object(t.key, t.ms) FROM (
        SELECT o.key, CASE
          WHEN o.key = 'startAt' THEN CASE
            -- SQLite counts on from a day that the month does not have.
            WHEN date(substr(o.value, 1, 10), '+0 days') <> substr(o.value, 1, 10) THEN NULL
            WHEN o.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:[0-9][0-9]*Z'
              OR o.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][T ][0-9][0-9]:*[+-][0-9][0-9]:[0-9][0-9]'
            THEN CAST(round((julianday(o.value) - 2440587.5) * 86400000) AS INTEGER) END
          WHEN o.amount GLOB '[0-9]*' AND o.amount GLOB '*[0-9]' AND o.amount NOT GLOB '*[^0-9.]*'
            AND o.amount NOT GLOB '*.*.*'
          THEN round(o.amount * CASE substr(o.value, length(o.amount) + 1) WHEN 'ms' THEN 1 WHEN 's' THEN 1000
            WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000 WHEN 'd' THEN 86400000 END)
        END AS ms
        FROM (
          SELECT e.key, e.value, rtrim(e.value, 'mshd') AS amount
          FROM json_each(CASE WHEN json_valid(NEW.options) THEN NEW.options END) e
          WHERE e.type = 'text' AND e.key IN ('delay', 'startAt', 'timeout', 'gracePeriod')
        ) o
      ) t WHERE t.ms IS NOT NULL))
  END;
END;

CREATE TRIGGER perdure_start_encoded_insert INSTEAD OF INSERT ON perdure_start_encoded BEGIN
  SELECT RAISE(ABORT, 'perdure: the instance id must be a text of 1 to 256 characters')
  WHERE typeof(NEW.id) <> 'text' OR length(NEW.id) NOT BETWEEN 1 AND 256 OR instr(NEW.id, char(0));
  SELECT RAISE(ABORT, 'perdure: the orchestration name must be a text of 1 to 256 characters')
  WHERE typeof(NEW.name) <> 'text' OR length(NEW.name) NOT BETWEEN 1 AND 256 OR instr(NEW.name, char(0));
  SELECT RAISE(ABORT, 'perdure: the options must be a JSON object')
  WHERE NEW.options IS NOT NULL AND NOT coalesce(
    CASE WHEN typeof(NEW.options) = 'text' AND json_valid(NEW.options) THEN json_type(NEW.options) = 'object' END, 0);
  SELECT RAISE(ABORT,
    'perdure: the options debounce, throttle and singleton are not for a start in a transaction; call client.start')
  WHERE EXISTS (
    SELECT 1 FROM json_each(NEW.options) o
    WHERE o.key IN ('debounce', 'throttle', 'singleton') AND o.type <> 'null');
  SELECT RAISE(ABORT,
    'perdure: an option is unknown; the options are version, priority, tags, queue, key, delay, startAt, timeout, gracePeriod, onConflict')
  WHERE EXISTS (
    SELECT 1 FROM json_each(NEW.options) o WHERE o.key NOT IN ('version', 'priority', 'tags', 'queue', 'key', 'delay',
      'startAt', 'timeout', 'gracePeriod', 'onConflict'));
  SELECT RAISE(ABORT, 'perdure: the option version must be a string of 1 to 256 characters')
  WHERE json_type(NEW.options, '$.version') NOT IN ('text', 'null')
    OR length(json_extract(NEW.options, '$.version')) NOT BETWEEN 1 AND 256;
  SELECT RAISE(ABORT, 'perdure: the option priority must be a whole number from -2147483648 to 2147483647')
  WHERE json_type(NEW.options, '$.priority') NOT IN ('integer', 'null')
    OR json_extract(NEW.options, '$.priority') NOT BETWEEN -2147483648 AND 2147483647;
  SELECT RAISE(ABORT, 'perdure: the option tags must be an object of strings')
  WHERE json_type(NEW.options, '$.tags') NOT IN ('object', 'null') OR json_type(NEW.options, '$.tags') = 'object'
    AND EXISTS (SELECT 1 FROM json_each(NEW.options, '$.tags') t WHERE t.type <> 'text');
  SELECT RAISE(ABORT, 'perdure: the option onConflict must be error or return; only a client replaces an instance')
  WHERE coalesce(json_extract(NEW.options, '$.onConflict'), 'error') NOT IN ('error', 'return');
  SELECT RAISE(ABORT, 'perdure: the option queue must be a string of 1 to 256 characters')
  WHERE json_type(NEW.options, '$.queue') NOT IN ('text', 'null')
    OR length(json_extract(NEW.options, '$.queue')) NOT BETWEEN 1 AND 256
    OR instr(json_extract(NEW.options, '$.queue'), char(0));
  SELECT RAISE(ABORT, 'perdure: the option key must be a string of 1 to 256 characters')
  WHERE json_type(NEW.options, '$.key') NOT IN ('text', 'null')
    OR length(json_extract(NEW.options, '$.key')) NOT BETWEEN 1 AND 256
    OR instr(json_extract(NEW.options, '$.key'), char(0));
  SELECT RAISE(ABORT,
    'perdure: the option delay must be a duration: a number of ms, or a text such as 1.5s or 24h')
  WHERE json_type(NEW.options, '$.delay') NOT IN ('integer', 'real', 'null')
    OR json_extract(NEW.options, '$.delay') NOT BETWEEN 0 AND 8640000000000000;
  SELECT RAISE(ABORT,
    'perdure: the option timeout must be a duration of at least 1 ms: a number, or a text such as 1.5s or 24h')
  WHERE json_type(NEW.options, '$.timeout') NOT IN ('integer', 'real', 'null')
    OR json_extract(NEW.options, '$.timeout') NOT BETWEEN 1 AND 8640000000000000;
  SELECT RAISE(ABORT,
    'perdure: the option gracePeriod must be a duration: a number of ms, or a text such as 1.5s or 24h')
  WHERE json_type(NEW.options, '$.gracePeriod') NOT IN ('integer', 'real', 'null')
    OR json_extract(NEW.options, '$.gracePeriod') NOT BETWEEN 0 AND 8640000000000000;
  SELECT RAISE(ABORT,
    'perdure: the option startAt must be a time: a text with an offset, or a number of ms since 1970')
  WHERE json_type(NEW.options, '$.startAt') NOT IN ('integer', 'real', 'null')
    OR json_extract(NEW.options, '$.startAt') NOT BETWEEN -8640000000000000 AND 8640000000000000;
  SELECT RAISE(ABORT, 'perdure: the option key needs the option queue, because a key counts within its queue')
  WHERE json_extract(NEW.options, '$.key') IS NOT NULL AND json_extract(NEW.options, '$.queue') IS NULL;
  SELECT RAISE(ABORT,
    'perdure: the option gracePeriod needs the option timeout, because it begins when that is over')
  WHERE json_extract(NEW.options, '$.gracePeriod') IS NOT NULL AND json_extract(NEW.options, '$.timeout') IS NULL;
  SELECT RAISE(ABORT, 'perdure: a start takes one of the options delay and startAt, not both')
  WHERE json_extract(NEW.options, '$.delay') IS NOT NULL AND json_extract(NEW.options, '$.startAt') IS NOT NULL;
  SELECT RAISE(ABORT, 'perdure: there is no queue of this name; set its limits first, with client.queues.set')
  WHERE json_extract(NEW.options, '$.queue') IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = json_extract(NEW.options, '$.queue'));
  SELECT RAISE(ABORT, 'perdure: an instance with this id exists already')
  WHERE coalesce(json_extract(NEW.options, '$.onConflict'), 'error') = 'error'
    AND EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  INSERT INTO instances (id, name, version, execution, status, epoch, next_event_id, turns, wake_at,
    custom_status_version, priority, tags, created_at, updated_at)
  SELECT NEW.id, NEW.name, coalesce(json_extract(NEW.options, '$.version'), ''), 1, 'Pending', 0, 2, 0,
    max(now.ms, coalesce(CAST(round(json_extract(NEW.options, '$.startAt')) AS INTEGER),
      now.ms + CAST(round(json_extract(NEW.options, '$.delay')) AS INTEGER), now.ms)), 0,
    coalesce(json_extract(NEW.options, '$.priority'), 0), json_extract(NEW.options, '$.tags'), now.ms, now.ms
  FROM (SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) AS ms) now
  WHERE NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  -- An instance of a queue is not due, but has a place (P24). A new instance has no history yet.
  INSERT INTO queue_places (key, queue, queue_key, name, version, priority, turn, queued_at, place)
  SELECT i.key, i.queue, i.queue_key, i.name, i.version, i.priority,
    CASE WHEN i.wake_at > i.created_at THEN 0 ELSE ({next_turn}) END,
    i.wake_at, CASE WHEN i.wake_at > i.created_at THEN 3 ELSE 0 END
  FROM (
    SELECT *, json_extract(NEW.options, '$.queue') AS queue,
      coalesce(json_extract(NEW.options, '$.key'), '') AS queue_key
    FROM instances WHERE id = NEW.id
  ) i
  WHERE i.queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM history h WHERE h.instance_key = i.key);
  UPDATE instances SET wake_at = NULL
  WHERE id = NEW.id AND json_extract(NEW.options, '$.queue') IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM history h WHERE h.instance_key = instances.key);
  -- The seed is a number of 64 bits without a sign, and the incarnation the same in hexadecimal digits.
  INSERT INTO history (instance_key, execution, event_id, time, kind, name, payload, meta)
  SELECT i.key, 1, 1, i.created_at, 'ExecutionStarted', i.name, NEW.input,
    '{"version":' || json_quote(i.version) || ',"seed":"' || printf('%u', random()) || '","incarnation":"'
    || lower(hex(randomblob(8))) || '"'
    || coalesce(',"timeLimit":{"timeoutMs":' || CAST(round(json_extract(NEW.options, '$.timeout')) AS INTEGER)
      || coalesce(',"graceMs":' || CAST(round(json_extract(NEW.options, '$.gracePeriod')) AS INTEGER), '') || '}', '')
    || CASE WHEN NEW.trace IS NULL THEN '' ELSE ',"trace":' || json_quote(NEW.trace) END || '}'
  FROM instances i
  WHERE i.id = NEW.id AND NOT EXISTS (SELECT 1 FROM history h WHERE h.instance_key = i.key);
END;

CREATE TRIGGER perdure_raise_event_insert INSTEAD OF INSERT ON perdure_raise_event BEGIN
  SELECT RAISE(ABORT, 'perdure: the data must be JSON text')
  WHERE NEW.data IS NOT NULL AND (typeof(NEW.data) = 'blob' OR NOT json_valid(NEW.data));
  SELECT RAISE(ABORT, 'perdure: the data takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.data) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, name, data, unread_max)
  VALUES ('Event', NEW.id, NEW.name, json(NEW.data), 1000000);
END;

CREATE TRIGGER perdure_enqueue_event_insert INSTEAD OF INSERT ON perdure_enqueue_event BEGIN
  SELECT RAISE(ABORT, 'perdure: the data must be JSON text')
  WHERE NEW.data IS NOT NULL AND (typeof(NEW.data) = 'blob' OR NOT json_valid(NEW.data));
  SELECT RAISE(ABORT, 'perdure: the data takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.data) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, name, data, unread_max)
  VALUES ('Queue', NEW.id, NEW.queue, json(NEW.data), 1000000);
END;

CREATE TRIGGER perdure_cancel_insert INSTEAD OF INSERT ON perdure_cancel BEGIN
  SELECT RAISE(ABORT, 'perdure: the reason must be a text of at most 2097152 bytes')
  WHERE typeof(NEW.reason) NOT IN ('text', 'null') OR length(CAST(json_quote(NEW.reason) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, data)
  VALUES ('Cancel', NEW.id, CASE WHEN NEW.reason IS NOT NULL THEN json_quote(NEW.reason) END);
END;

CREATE TRIGGER perdure_message_encoded_insert INSTEAD OF INSERT ON perdure_message_encoded BEGIN
  SELECT RAISE(ABORT, 'perdure: the instance id must be a text of 1 to 256 characters')
  WHERE typeof(NEW.id) <> 'text' OR length(NEW.id) NOT BETWEEN 1 AND 256 OR instr(NEW.id, char(0));
  SELECT RAISE(ABORT, 'perdure: the name of an event or a queue must be a text of 1 to 256 characters')
  WHERE NEW.kind <> 'Cancel'
    AND (typeof(NEW.name) <> 'text' OR length(NEW.name) NOT BETWEEN 1 AND 256 OR instr(NEW.name, char(0)));
  SELECT RAISE(ABORT, 'perdure: there is no instance with this id')
  WHERE NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  SELECT RAISE(ABORT, 'perdure: the instance has ended and takes no more messages')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind <> 'Cancel'
    AND i.status IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
  SELECT RAISE(ABORT, 'perdure: the instance has reached its limit of unread messages (limits.mailboxMessages)')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind <> 'Cancel' AND i.unread >= NEW.unread_max;
  SELECT RAISE(ABORT, 'perdure: the instance is suspended; client.cancelInstance can cancel it')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind = 'Cancel' AND i.status = 'Suspended';
  SELECT RAISE(ABORT, 'perdure: the instance waits for its start; client.cancelInstance can cancel it')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind = 'Cancel' AND i.status = 'Pending' AND i.epoch = 0
    AND i.owner IS NULL
    AND coalesce(i.wake_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), 1);
  INSERT INTO messages (instance_key, kind, name, payload, time)
  SELECT i.key, NEW.kind, NEW.name, NEW.data, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM instances i WHERE i.id = NEW.id AND i.status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
  -- An instance that is due already keeps its place in the order.
  -- One that no worker has acquired yet is due at its own time.
  UPDATE instances SET unread = unread + 1, wake_at = CASE WHEN owner IS NULL AND epoch > 0 AND status <> 'Suspended'
    THEN min(coalesce(wake_at, 9223372036854775807), CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    ELSE wake_at END
  WHERE id = NEW.id AND status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
END;
