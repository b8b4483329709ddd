// Package script runs provisioning scripts on a host. Each has a sandbox of its own (sandbox/), the
// library that it imports (python/), and a session, which the engine continues turn by turn.
//
// A script's requests take effect in two ways. The engine makes volumes: it receives the call and
// answers with the next turn. The session itself provides block devices: the pool maps the volume,
// which it records first, and the sandbox shows the device where PVC's scripts look for it, at
// /dev/rbd/POOL/VOLUME for every kind of pool.
//
// A script's output does not come through the channel of its runner, so the end of a turn reads
// what is in the pipes at that time: a turn has all the output of its step.
//
// A session ends with its script's process, with an interrupted turn, when another session of the
// same job begins, when it is closed, and when no turn has come for a long time. From then on no
// turn finds it, and everything of it is removed: processes, mounts, devices, mappings.
package script
