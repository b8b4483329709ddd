//go:build integration && libvirt && long

package e2e

import (
	"testing"

	"seedbed/internal/lab"
)

const onIPv6 = `#cloud-config
runcmd:
  - [sh, -c, 'ip -o addr show scope global | sed "s/^/SEEDBED addr /" >/dev/console']
  - [sh, -c, 'ip -6 route show | sed "s/^/SEEDBED route6 /" >/dev/console']
  - [sh, -c, 'echo nameserver fd00:ec2::253 >/etc/resolv.conf']
  - [sh, -c, 'getent ahosts six.alone.internal | head -1 | sed "s/^/SEEDBED name /" >/dev/console']
  - [sh, -c, 'sed "s/^/SEEDBED status /" /run/cloud-init/status.json >/dev/console']
  - [sh, -c, 'echo SEEDBED done >/dev/console']
`

// TestIPv6Guest boots a stock Debian guest on a network without IPv4. It finds its metadata, its name and its resolver by IPv6, and
// reports by it. It has its address by SLAAC: cloud-init 22.4 finds the metadata after the network is up, and does not configure DHCPv6
// any more.
func TestIPv6Guest(t *testing.T) {
	beside(t)
	onlyIPv6(t, lab.GuestImage(t), "768MiB", onIPv6,
		`SEEDBED addr .* inet6 `+secondAddr6+`/`, `SEEDBED route6 default via fe80::a9fe:a9fe `, `SEEDBED name `+secondAddr6,
		`SEEDBED status .*DataSourceEc2\b`)
}
