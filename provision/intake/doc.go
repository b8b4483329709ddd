// Package intake checks requests and records them as jobs. It resolves the profile of a request,
// chooses a node, and describes the instance with its NICs, volumes and documents; the engine then
// makes what the job describes. Dry runs show what a request would make. A Follower renews the
// user-data of instances that follow a changed profile or document.
package intake
