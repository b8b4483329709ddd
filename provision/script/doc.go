// Package script runs provisioning scripts on a host: each in a sandbox of its
// own (sandbox/), with the library that it imports (python/), as a session that
// the engine has go on turn by turn.
//
// What a script asks for reaches the world in two ways. Volumes are made by the
// engine, which is told of the call and gives the answer with the next turn.
// Block devices are shown by the session itself: the pool maps the volume, which
// it records before it does, and the sandbox has the device where PVC's scripts
// look for it, at /dev/rbd/POOL/VOLUME, whatever the pool is.
//
// What a script prints comes by other ways than what its runner says, so the end
// of a turn takes what is in the pipes by then: a turn has all the output of its step.
//
// A session ends with its script's process, with a turn that is cut off, with a
// session of the same job that begins, when it is closed, and when no turn has
// come for long. From then on no turn finds it, and everything of it is taken
// back: processes, mounts, devices, mappings.
package script
