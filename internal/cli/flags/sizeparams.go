package flags

import (
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/internal/cli"
)

// sized holds the parameters of a request that say how large an instance is, what it boots from and who may log in.
type sized struct {
	VCPUs   int           `json:"vcpus"`
	Memory  seedbed.Bytes `json:"memory"`
	Disk    seedbed.Bytes `json:"disk"`
	Boot    string        `json:"boot_from"`
	CDROM   string        `json:"cdrom"`
	TPM     bool          `json:"tpm"`
	SSHKeys []string      `json:"ssh_keys"`

	Firmware string `json:"firmware"`
	Restart  string `json:"restart"`
	Priority int    `json:"restart_priority"`
	Group    string `json:"placement_group"`
}

// SizeParams are the flags that set these parameters instead of --param.
type SizeParams struct {
	to    sized
	bound *cli.Bound
}

// Add adds the flags to c.
func (s *SizeParams) Add(a *cli.App, c *cobra.Command) {
	s.bound = cli.Bind(a, c, &s.to,
		cli.Flag{Field: "vcpus", Usage: "number of virtual `CPUS` (default: the profile's, or 1)"},
		cli.Flag{Field: "memory", Usage: "memory `SIZE`, such as 4GiB (default: the profile's, or 1GiB)"},
		cli.Flag{Field: "disk", Usage: "`SIZE` of the first disk, such as 20GiB (default: the profile's, or 10GiB)"},
		cli.Flag{Field: "boot_from", Name: "boot", Usage: "`SOURCE` that it boots from: disk, or network, by its first NIC, or cdrom, and then " +
			"the disk (default: the profile's, or disk)"},
		cli.Flag{Field: "cdrom", Usage: "ISO `IMAGE` for its CD-ROM drive; without an image and a profile, its disk is blank"},
		cli.Flag{Field: "firmware", Usage: "`FIRMWARE` that starts it: bios, uefi, or uefi-secure for secure boot " +
			"(default: its image's, or bios)"},
		cli.Flag{Field: "tpm", Usage: "give it a virtual TPM 2.0"},
		cli.Flag{Field: "restart", Usage: "`WHEN` to start it on another node: always if its own is fenced, or never (default)"},
		cli.Flag{Field: "restart_priority", Usage: "`NUMBER` by which instances of a fenced node are started, the highest first (default 0)"},
		cli.Flag{Field: "placement_group", Names: cli.PlacementGroups,
			Usage: "placement `GROUP` that it is in (default: the profile's, or none)"},
		cli.Flag{
			Field: "ssh_keys", Name: "ssh-key", Each: true,
			ParseAll: func(texts []string) (any, error) { return SSHKeys(texts) },
			Usage:    "public SSH key: a `FILE` or the key itself (repeatable; default: those of the profile)",
		},
	)
}

// Given returns the names of the given flags.
func (s *SizeParams) Given() []string { return s.bound.GivenNames() }

// Set adds what the given flags say to the parameters of a request.
func (s *SizeParams) Set(params map[string]any) error {
	given, err := s.bound.Values()
	if err != nil {
		return err
	}
	for name, value := range given {
		if _, twice := params[name]; twice {
			return cli.Usagef("--param %s and --%s set the same: give only one", name, s.bound.Name(name))
		}
		params[name] = value
	}
	return nil
}
