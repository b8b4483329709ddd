-- Names of tokens, hooks and endpoints are unique in their project: outside the default project, the name is
-- "project/name".

-- +goose Up
INSERT INTO hook (name, key, actions, tolerance, created, settings, declared, changed, project)
  SELECT project || '/' || name, key, actions, tolerance, created, settings, declared, changed, project FROM hook WHERE project <> 'default';
INSERT INTO endpoint (name, url, events, cloudevents, allow_private, insecure, enabled, reason, seq, owner, epoch, lease_until, failures,
    failing_since, open_until, created, project)
  SELECT project || '/' || name, url, events, cloudevents, allow_private, insecure, enabled, reason, seq, owner, epoch, lease_until, failures,
    failing_since, open_until, created, project FROM endpoint WHERE project <> 'default';
UPDATE hook_key SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = hook_key.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE hook_profile SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = hook_profile.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE delivery SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = delivery.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE delivery_other SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = delivery_other.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE delivery_rejected SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = delivery_rejected.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE instance SET hook = (SELECT project || '/' || name FROM hook WHERE hook.name = instance.hook)
  WHERE hook IN (SELECT name FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE endpoint_key SET endpoint = (SELECT project || '/' || name FROM endpoint WHERE endpoint.name = endpoint_key.endpoint)
  WHERE endpoint IN (SELECT name FROM endpoint WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE outbox SET endpoint = (SELECT project || '/' || name FROM endpoint WHERE endpoint.name = outbox.endpoint)
  WHERE endpoint IN (SELECT name FROM endpoint WHERE project <> 'default' AND name NOT LIKE '%/%');
UPDATE instance SET token = (SELECT project || '/' || name FROM token WHERE token.name = instance.token)
  WHERE token IN (SELECT name FROM token WHERE project <> 'default' AND name NOT LIKE '%/%');
DELETE FROM hook WHERE project <> 'default' AND name NOT LIKE '%/%';
DELETE FROM endpoint WHERE project <> 'default' AND name NOT LIKE '%/%';
UPDATE token SET name = project || '/' || name WHERE project <> 'default';

UPDATE version SET schema = 26, min_program = 26;
