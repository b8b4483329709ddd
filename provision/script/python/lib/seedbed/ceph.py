"""Volumes of the instance that the script makes.

Each function calls the worker, and returns (whether it succeeded, a message). It
ignores its first argument, PVC's connection. The names are PVC's, but the pool can
also be a directory. A mapped volume is the block device /dev/rbd/POOL/VOLUME.
"""

from . import _channel
from ._modules import missing


def add_volume(zkhandler, pool, name, size, force_flag=False, zk_only=False):
    """Makes an empty volume. size is a number of bytes, or a number with a binary unit: 512M, 8G, 1T."""
    if zk_only:
        return False, "ERROR: add_volume: zk_only is PVC's own business; a volume is made here with its record"
    return _change("add_volume", 'Created volume "%s/%s" of %s.' % (pool, name, size), pool=pool, name=name, size=size)


def clone_volume(zkhandler, pool, name_src, name_new, force_flag=False):
    """Makes a volume as a clone of an image of the same pool."""
    done = 'Cloned "%s/%s" to "%s".' % (pool, name_src, name_new)
    return _change("clone_volume", done, pool=pool, name=name_new, source=name_src)


def map_volume(zkhandler, pool, name):
    """Shows a volume as a block device; the message is its path, /dev/rbd/POOL/VOLUME.

    An image of the pool is shown as a clone of it, which goes with the script.
    """
    return _change("map_volume", "/dev/rbd/%s/%s" % (pool, name), pool=pool, name=name)


def unmap_volume(zkhandler, pool, name):
    """Removes the block device of a volume. It must not be mounted or open."""
    return _change("unmap_volume", 'Unmapped volume "%s/%s".' % (pool, name), pool=pool, name=name)


def _change(call, done, /, **args):
    ok, message = _channel.current.call(call, **args)
    if ok:
        return True, message or done
    if not message.startswith("ERROR:"):
        message = "ERROR: " + (message or "%s was refused" % call)
    return False, message


__all__ = ["add_volume", "clone_volume", "map_volume", "unmap_volume"]
__getattr__ = missing(__name__, __all__)
