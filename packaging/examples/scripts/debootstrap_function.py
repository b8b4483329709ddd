"""Installs Debian with a function: what debootstrap.py does, in the older form.

Seedbed makes, formats, mounts, unmounts and unmaps the disks, and defines the
machine; install() is called in between, with them mounted under
temporary_directory. As there, the first disk must hold /boot, or / when /boot has no
disk of its own, and be ext4.

Arguments: deb_mirror (must be given), deb_release, deb_packages, deb_tarball, kernel
and console, as in debootstrap.py.
"""

import os
import subprocess

PACKAGES = (
    "systemd,systemd-sysv,udev,dbus,netbase,iproute2,ifupdown,isc-dhcp-client,ca-certificates,"
    "openssh-server,cloud-init,cloud-guest-utils,fdisk,python3-cffi-backend,grub-pc"
).split(",")

TOOLS = {"ext2": "e2fsprogs", "ext3": "e2fsprogs", "ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}

GRUB = """GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=%s"
GRUB_TERMINAL="console serial"
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_OS_PROBER=true
"""


def install(**kwargs):
    target, vm_name = kwargs["temporary_directory"], kwargs["vm_name"]
    release = kwargs.get("deb_release", "stable")
    if not kwargs.get("deb_mirror"):
        raise ValueError("the argument deb_mirror is missing: where packages come from")
    disks = [dict(d, device="/dev/rbd/%s/%s_%s" % (d["pool"], vm_name, d["disk_id"])) for d in kwargs["disks"] if d["filesystem"]]
    places = {d["mountpoint"]: d for d in disks if d["filesystem"] != "swap"}
    boot = places.get("/boot") or places["/"]

    packages = PACKAGES + [kwargs.get("kernel", "linux-image-cloud-amd64")] + kwargs.get("deb_packages", "").split(",")
    packages += [TOOLS[d["filesystem"]] for d in places.values() if d["filesystem"] in TOOLS]
    command = ["debootstrap", "--variant=minbase", "--include=" + ",".join(sorted(set(filter(None, packages))))]
    if kwargs.get("deb_tarball"):
        command.append("--unpack-tarball=" + kwargs["deb_tarball"])
    run(*command, release, target, kwargs["deb_mirror"])

    def write(path, text):
        with open(target + path, "w", encoding="utf-8") as f:
            f.write(text)

    write("/etc/fstab", "".join(fstab(disks)))
    write("/etc/hostname", vm_name + "\n")
    write("/etc/machine-id", "")
    write("/etc/resolv.conf", "")
    write("/etc/default/grub", GRUB % kwargs.get("console", "ttyS0"))
    write("/etc/initramfs-tools/conf.d/resume", "RESUME=none\n")

    # What is mounted below the target is unmounted with it.
    for place in ("dev", "proc", "sys"):
        run("mount", "--rbind" if place == "dev" else "--bind", "/" + place, "%s/%s" % (target, place))
    run("chroot", target, "update-initramfs", "-u")
    run("chroot", target, "grub-install", "--target=i386-pc", "--force", boot["device"])
    run("chroot", target, "update-grub")

    # There is no udev here to make the links that update-grub looks for.
    with open(target + "/boot/grub/grub.cfg", encoding="utf-8") as f:
        text = f.read()
    write("/boot/grub/grub.cfg", text.replace("root=" + places["/"]["device"], "root=UUID=" + uuid(places["/"])))


def run(*command):
    """Runs a command; what it prints goes to the job's output."""
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)


def uuid(disk):
    command = ["blkid", "-p", "-s", "UUID", "-o", "value", disk["device"]]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().strip()


def fstab(disks):
    for disk in disks:
        if disk["filesystem"] == "swap":
            yield "UUID=%s none swap sw 0 0\n" % uuid(disk)
        elif disk["mountpoint"]:
            number = 0 if disk["filesystem"] in ("xfs", "btrfs") else 1 if disk["mountpoint"] == "/" else 2
            yield "UUID=%s %s %s defaults 0 %d\n" % (uuid(disk), disk["mountpoint"], disk["filesystem"], number)
