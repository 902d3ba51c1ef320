-- Copyright The Grapnel Authors.
-- SPDX-License-Identifier: Apache-2.0

-- Reports the health of an object of Grapnel, of any kind, to Argo CD; docs/guides/gitops.md explains
-- the answers. It reads the conditions that every kind has, and not the phase, which is
-- computed from them: so it needs no list of phases, and is correct for those of later versions.
--
-- Argo CD passes the object as obj, and opens Lua's base and table libraries:
-- https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks

local spec, status = obj.spec or {}, obj.status or {}

local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end

local function is(name, value)
  return found[name] ~= nil and found[name].status == value
end

local message = status.message or (found.Ready and found.Ready.message)

local function answer(health, text)
  return {status = health, message = text or message}
end

-- Newer versions of Argo CD ask also while an object is being deleted; older ones answer
-- Progressing themselves.
if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "Being deleted" .. (message and " (" .. message .. ")" or ""))
end
if found.Ready == nil then
  return answer("Progressing", "The operator has not reconciled it yet")
end
if is("Reconciling", "True") then
  return answer("Progressing")
end
if status.observedGeneration ~= obj.metadata.generation then
  return answer("Progressing", "It was changed, and the operator has not reconciled it since")
end

if is("Stalled", "True") then
  return answer("Degraded")
end
if not is("Ready", "True") then
  return answer("Progressing")
end
if spec.suspend then
  return answer("Suspended", obj.kind == "Plugin" and "Suspended: it is left out of Backups and Restores that are planned now")
end
if is("Synced", "False") then -- a location: it can be used, and holds what cannot be imported
  return answer("Healthy", found.Synced.message)
end
return answer("Healthy")
