// Package sandbox runs a program that is not to be trusted and needs root: it
// makes file systems, mounts them, fills them with a distribution, changes its
// root into them. Its author may be careless or worse, and what it downloads may
// be anything. Inside it is root; outside it has no rights.
//
// # Who is who
//
// The worker, the host's root, starts two processes from its own binary (see
// Init), in PID, mount, IPC, UTS and network namespaces made for them:
//
//	warden    process 1, still the host's root. Builds the root directory, answers
//	          for mount, umount and mknod, waits for orphans, ends with the worker.
//	launcher  in a user namespace of its own. Puts itself under the limits and the
//	          filter, and becomes the program.
//
// # What holds
//
// Any one of these may fail, by a bug of ours or of the kernel's, and the next still stands:
//
//   - User ids are shifted: 0 to 65535 inside are a range outside that belongs to
//     nothing else, another one for each sandbox that lives. What the host's files
//     give to others is all that the program can have of them.
//   - All namespaces but the user namespace belong to the host's. So the program
//     has no capability over its mounts, its network or its host name, and the
//     kernel itself refuses it mount(2), whatever becomes of the filter.
//   - The root directory is made of few of the host's trees, read-only, with the
//     places of secrets covered; covers come along into every bind, and stay with
//     it when it is unmounted lazily while in use. /dev has the harmless
//     character devices and the job's own, /proc is the PID namespace's, its
//     dangerous parts read-only or empty, /sys is read-only, /run is new.
//   - The system call filter refuses what is not needed to install an operating
//     system, all that is newer than the filter, and other ABIs (x32, i386). It
//     decides only on numbers and plain values. no_new_privs is set. Whoever may
//     write to a loop device may give it another file: those calls are among the refused.
//   - mount(2), umount2(2) and mknod(2) of devices are stopped by the filter and
//     done by the warden's broker: it copies the arguments once, opens what they
//     name below the caller's own root, without following links of /proc and, on
//     what is the host's, with the caller's rights, decides on the open descriptors
//     and uses those. It mounts the job's own devices, with known file systems and
//     known options, idmapped so that root inside is root on the volume; binds of
//     what is visible, as read-only as it is; tmpfs of bounded size; and, for proc,
//     sysfs and devpts, binds of the sandbox's own. Targets lie in what is the
//     program's own. A refusal is a line of Notes with its reason.
//   - A device cgroup (rules of version 1, a program of version 2) lets the program
//     open nothing but those devices, so that a node on a volume's file system
//     opens no other.
//   - Cgroups bound memory, swap, processor time and processes; resource limits
//     stand in for missing ones, as well as they can, and Notes say so. What the
//     kernel counts for the host's root or the whole host (inotify, requests of
//     io_setup) is bounded or absent. The time limit ends all of it.
//   - The network is a loopback of its own unless Spec.Network is set.
//
// # What does not hold
//
//   - A volume's file system is parsed by the host's kernel. A script writes any
//     bytes it likes onto its volumes and has them mounted, so a bug in ext4, XFS,
//     Btrfs or FAT is within its reach. The types are few, ext's wish for a panic
//     on errors is overruled, and that is all that can be done short of a virtual
//     machine. Two Btrfs volumes of one UUID confuse that file system on their own.
//     An ext4 superblock may name a foreign device as its journal: the kernel opens
//     that for a moment, and uses none that does not bear the file system's UUID.
//   - With Spec.Network the program has the host's network: services on the loopback
//     address and abstract sockets are within reach, as for any local user.
//   - What the warden does for a script counts as the worker's: at most one
//     processor's time, and the kernel's memory for 512 mounts, and 4096 that were
//     unmounted in use. So do queued signals, which are counted for the host's root.
//   - /proc and /sys tell of the host: processors, memory, names of block devices.
//   - Spec.Privileged removes nearly all of it. The program is the host's root in
//     mount, PID, IPC and UTS namespaces of its own, with limits, and can do what it likes.
//
// Nothing of a sandbox is mounted outside its own namespace, so it ends with its
// processes. What the disk knows of it (Config.Dir) is one record each, by which
// Sweep ends what a dead worker's sandboxes left.
//
// It needs root, Linux 5.14 or later (idmapped mounts: ext4 and vfat from 5.12,
// btrfs 5.15, xfs 5.19) on amd64 or arm64, and the binary must be executable by all.
// On a host with the unified cgroup hierarchy under systemd, the worker's unit
// needs Delegate=yes.
package sandbox
