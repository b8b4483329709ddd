"""datasource.py MODULE CLASS DIR: what one of cloud-init's datasources finds, as JSON.

It does what cloud-init's init stage does with a datasource, and nothing else:
the class is cloud-init's own, with its settings and URLs.
"""

import base64
import importlib
import json
import logging
import sys
import time

import cloudinit.net.eni
import cloudinit.net.network_state
from cloudinit import distros, helpers, net

module, cls, where = sys.argv[1:]


class Lines(logging.Handler):
    lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


logging.getLogger().setLevel(logging.DEBUG)
logging.getLogger().addHandler(Lines())

paths = helpers.Paths({"cloud_dir": where + "/cloud", "run_dir": where + "/run"})
distro = distros.fetch("debian")("debian", {}, paths)
source = getattr(importlib.import_module("cloudinit.sources." + module), cls)
ds = source({"datasource_list": [cls[len("DataSource"):], "None"]}, distro, paths)

began = time.monotonic()
found = ds.get_data()
took = time.monotonic() - began


def raw(value):
    if value is None:
        return None
    if isinstance(value, str):
        value = value.encode()
    return base64.b64encode(value).decode()


out = {"found": found, "seconds": took, "log": Lines.lines}
if found:
    hostname = ds.get_hostname()
    out.update(
        instance_id=ds.get_instance_id(),
        hostname=getattr(hostname, "hostname", hostname),
        keys=ds.get_public_ssh_keys(),
        zone=ds.availability_zone,
        region=ds.region,
        cloud_name=ds.cloud_name,
        metadata=ds.metadata,
        userdata=raw(ds.get_userdata_raw()),
        vendordata=raw(ds.get_vendordata_raw()),
        network=ds.network_config,
        platform=ds.platform_type,
    )
    if ds.network_config and ds.network_config.get("version") == 2 and cls == "DataSourceNoCloudNet":
        state = net.network_state.parse_net_config_data(ds.network_config)
        net.eni.Renderer().render_network_state(state, target=where)
        with open(where + "/etc/network/interfaces") as f:
            out["eni"] = f.read()
json.dump(out, sys.stdout, default=repr)
