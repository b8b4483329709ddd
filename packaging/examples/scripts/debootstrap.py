"""Installs Debian (or what descends from it) onto the disks of a profile.

Each disk with a filesystem is formatted as a whole, without a partition table, and
mounted by its mountpoint; one with the filesystem "swap" becomes swap space. The
machine boots by GRUB from its first disk, finds its metadata without help (EC2), and is
set up by cloud-init with the user-data of its profile.

GRUB's first sector comes before the filesystem of the disk that holds /boot, and finds
the rest by the blocks of a file there. ext4 leaves room for that; XFS leaves none, and
the 64 KiB of Btrfs are too few for a GRUB that reads Btrfs. So the first disk must hold
/boot, or / when /boot has no disk of its own, and be ext4: for a root on XFS or Btrfs,
make the first disk a small ext4 /boot (1 GB does).

Arguments (`profile add ... -a deb_release=trixie`):

    deb_mirror    where packages come from; must be given
    deb_release   which release; stable when not given
    deb_packages  more packages, with commas between
    deb_tarball   a file of the host with the packages, as debootstrap --make-tarball
                  writes it: nothing is downloaded then. Scripts see it where scripts.show
                  of the configuration names it; else they need the network
                  (`seedbed script options debootstrap --network`)
    kernel        the kernel's package; linux-image-cloud-amd64 when not given
    console       where the kernel writes to; ttyS0 when not given
"""

import os
import shutil
import subprocess

from seedbed import VMBuilder, add_volume, chroot, clone_volume, config, domain_xml, map_volume, open_zk, unmap_volume

TARGET = "/tmp/target"

# cloud-init configures nothing without python3-cffi-backend.
PACKAGES = (
    "systemd,systemd-sysv,udev,dbus,netbase,iproute2,ifupdown,isc-dhcp-client,ca-certificates,"
    "openssh-server,cloud-init,cloud-guest-utils,fdisk,python3-cffi-backend,grub-pc"
).split(",")

# What the guest needs to check and mount a filesystem.
TOOLS = {"ext2": "e2fsprogs", "ext3": "e2fsprogs", "ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}

# Filesystems that GRUB can be put before.
BOOTABLE = ("ext2", "ext3", "ext4")

GRUB = """GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=%s"
GRUB_TERMINAL="console serial"
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_OS_PROBER=true
"""


class VMBuilderScript(VMBuilder):
    def setup(self):
        self.formatted, self.devices = [], {}  # cleanup() looks at them, however far setup() came
        self.arguments = self.vm_data["script_arguments"]
        self.formatted = [v for v in self.vm_data["volumes"] if v["filesystem"]]
        # Parents first: / before /var before /var/log.
        self.mounted = sorted(
            (v for v in self.formatted if v["filesystem"] != "swap" and v["mountpoint"]),
            key=lambda v: [part for part in v["mountpoint"].split("/") if part],
        )
        places = {v["mountpoint"]: v for v in self.mounted}
        if "/" not in places:
            self.fail("no disk has the mountpoint /")
        boot = places.get("/boot", places["/"])
        if boot is not self.vm_data["volumes"][0]:
            self.fail("%s must be the first disk: a machine boots from that" % boot["mountpoint"])
        if boot["filesystem"] not in BOOTABLE:
            self.fail(
                "GRUB cannot be put before %s on %s: make the first disk a small ext4 /boot" % (boot["filesystem"], boot["mountpoint"])
            )
        self.boot = boot
        if not self.arguments.get("deb_mirror"):
            self.fail("the argument deb_mirror is missing: where packages come from")
        for tool in {"debootstrap", "mount", "umount", "blkid"} | {mkfs(v) for v in self.formatted}:
            if shutil.which(tool) is None:
                self.fail("%s is not installed on this host" % tool)

    def create(self):
        return domain_xml(self)

    def prepare(self):
        with open_zk(config) as cluster:
            for volume in self.vm_data["volumes"]:
                pool, name = volume["pool"], self.volume(volume)
                if volume["source_volume"]:
                    done, message = clone_volume(cluster, pool, volume["source_volume"], name)
                else:
                    done, message = add_volume(cluster, pool, name, "%sG" % volume["disk_size_gb"])
                if not done:
                    self.fail(message)
        for volume in self.formatted:
            with open_zk(config) as cluster:
                done, message = map_volume(cluster, volume["pool"], self.volume(volume))
            if not done:
                self.fail(message)
            self.devices[volume["disk_id"]] = message
            options = [word for arg in volume["filesystem_args"].split() for word in arg.split("=", 1)]
            again = ["-f"] if volume["filesystem"] in ("xfs", "btrfs") else []
            self.run(mkfs(volume), *again, *options, self.device(volume))
        for volume in self.mounted:
            place = TARGET + volume["mountpoint"].rstrip("/")
            os.makedirs(place, exist_ok=True)
            self.run("mount", "-t", volume["filesystem"], self.device(volume), place)

    def install(self):
        more = self.arguments.get("deb_packages", "").split(",")
        packages = PACKAGES + [self.arguments.get("kernel", "linux-image-cloud-amd64")] + more
        packages += [TOOLS[v["filesystem"]] for v in self.mounted if v["filesystem"] in TOOLS]
        command = ["debootstrap", "--variant=minbase", "--include=" + ",".join(sorted(set(filter(None, packages))))]
        if self.arguments.get("deb_tarball"):
            command.append("--unpack-tarball=" + self.arguments["deb_tarball"])
        self.log_info("installing %s" % self.arguments.get("deb_release", "stable"))
        self.run(*command, self.arguments.get("deb_release", "stable"), TARGET, self.arguments["deb_mirror"])

        self.write("/etc/fstab", "".join(self.fstab()))
        self.write("/etc/hostname", self.vm_name + "\n")
        self.write("/etc/machine-id", "")  # generated by the guest
        self.write("/etc/resolv.conf", "")  # the host's: DHCP tells the guest its own
        self.write("/etc/default/grub", GRUB % self.arguments.get("console", "ttyS0"))
        # There is no swap to resume from: without this the initramfs waits for it.
        self.write("/etc/initramfs-tools/conf.d/resume", "RESUME=none\n")

        for place in ("dev", "proc", "sys"):
            self.run("mount", "--rbind" if place == "dev" else "--bind", "/" + place, "%s/%s" % (TARGET, place))
        with chroot(TARGET):
            self.run("update-initramfs", "-u")
            # --force: by a list of blocks where there is no room for all of GRUB, as before ext4.
            self.run("grub-install", "--target=i386-pc", "--force", self.device(self.boot))
            self.run("update-grub")
        self.name_root_by_uuid()

    def cleanup(self):
        with open("/proc/self/mounts", encoding="utf-8") as f:
            places = [line.split()[1] for line in f]
        for place in reversed(places):
            if place == TARGET or place.startswith(TARGET + "/"):
                self.run("umount", place)
        with open_zk(config) as cluster:
            for volume in reversed(self.formatted):
                if volume["disk_id"] in self.devices:
                    done, message = unmap_volume(cluster, volume["pool"], self.volume(volume))
                    if not done:
                        self.fail(message)

    def volume(self, volume):
        return "%s_%s" % (self.vm_name, volume["disk_id"])

    def device(self, volume):
        return self.devices[volume["disk_id"]]

    def run(self, *command):
        """Runs a command; what it prints goes to the job's output."""
        status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
        if status != 0:
            self.fail("%s: status %d" % (" ".join(command), status))

    def write(self, path, text):
        with open(TARGET + path, "w", encoding="utf-8") as f:
            f.write(text)

    def fstab(self):
        for volume in self.mounted:
            number = 1 if volume["mountpoint"] == "/" else 2
            if volume["filesystem"] in ("xfs", "btrfs"):
                number = 0  # they are not checked at boot
            yield "UUID=%s %s %s defaults 0 %d\n" % (self.uuid(volume), volume["mountpoint"], volume["filesystem"], number)
        for volume in self.formatted:
            if volume["filesystem"] == "swap":
                yield "UUID=%s none swap sw 0 0\n" % self.uuid(volume)

    def uuid(self, volume):
        command = ["blkid", "-p", "-s", "UUID", "-o", "value", self.device(volume)]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().strip()

    def name_root_by_uuid(self):
        """Corrects the name that update-grub gives the root: there is no udev here to make the links it looks for."""
        root = next(v for v in self.mounted if v["mountpoint"] == "/")
        with open(TARGET + "/boot/grub/grub.cfg", encoding="utf-8") as f:
            text = f.read()
        right = "root=UUID=" + self.uuid(root)
        if right not in text:
            text = text.replace("root=" + self.device(root), right)
        if right not in text:
            self.fail("grub.cfg does not name the root filesystem as expected")
        self.write("/boot/grub/grub.cfg", text)


def mkfs(volume):
    return "mkswap" if volume["filesystem"] == "swap" else "mkfs." + volume["filesystem"]
