-- How many rows of messages an instance has, so that to ask costs the same however many there are.
ALTER TABLE instances ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
UPDATE instances SET unread = (SELECT count(*) FROM messages WHERE instance_key = instances.key)
  WHERE key IN (SELECT instance_key FROM messages);

-- The messages of one mailbox among any number of others.
CREATE INDEX messages_mailbox ON messages (instance_key, kind, name);
