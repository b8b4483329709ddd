# Reads an answer of GET /vm/NAME as "pvc vm dump", "vcpu get", "memory get", "network get" and
# "volume get" do: with lxml's objects, for which an element that is not there is an error.
import json
import re
import sys

from lxml import etree, objectify

row = json.load(sys.stdin)
if isinstance(row, list):
    row = row[0]
domain = objectify.fromstring(row["xml"])
topology = domain.cpu.topology.attrib
print(
    json.dumps(
        {
            "dump": etree.tostring(etree.fromstring(row["xml"]), pretty_print=True).decode(),
            "vcpus": int(domain.vcpu.text),
            "topology": "/".join(topology.get(part) for part in ("sockets", "cores", "threads")),
            "memory": int(domain.memory.text),
            "networks": [
                {
                    "network": re.search("(?:vm)?br([0-9a-z]+)", nic.source.attrib.get("bridge")).group(1),
                    "mac": nic.mac.attrib.get("address"),
                    "model": nic.model.attrib.get("type"),
                }
                for nic in domain.devices.find("interface")
            ],
            "volumes": [
                {
                    "file": disk.source.attrib.get("file"),
                    "type": disk.attrib.get("type"),
                    "dev": disk.target.attrib.get("dev"),
                    "bus": disk.target.attrib.get("bus"),
                }
                for disk in domain.devices.find("disk")
            ],
        }
    )
)
