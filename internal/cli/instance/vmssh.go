package instance

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
	"seedbed/internal/command"
)

func vmSSH(a *cli.App) *cobra.Command {
	s := secureShell{port: 22}
	c := &cobra.Command{
		Use: "ssh [USER@]NAME [COMMAND...]", Short: "Log in to an instance's guest by SSH",
		Long: `Log in to an instance's guest with ssh, or run a command there. The address is the floating
address of the first NIC that has one, and otherwise the address of the first NIC. This
host must reach it: --jump goes by way of a host that does, such as the node.

A guest that reported (--ready report) has told its host key, and ssh accepts no other one.
For other guests ssh asks once, and remembers the key by the instance's ID, so that another
instance with the same address is not mistaken for it.

If ~/.ssh has the private key of one of the instance's SSH keys, ssh tries it first. What else
ssh needs, such as the user, comes from ~/.ssh/config. The status is that of the command, or
255 if ssh fails.`,
		Args: cobra.MinimumNArgs(1),
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			user, name, found := strings.Cut(args[0], "@")
			if !found {
				user, name = "", args[0]
			}
			if found && (user == "" || name == "" || user[0] == '-') {
				return cli.Usagef("%q: expected USER@NAME or NAME", args[0])
			}
			if s.port < 1 || s.port > 65535 {
				return cli.Usagef("--port %d: expected 1 to 65535", s.port)
			}
			i, err := api.Instance(ctx, name)
			if err != nil {
				return err
			}
			options, err := s.args(i, user)
			if err != nil {
				return err
			}
			remote := args[1:]
			if len(remote) > 0 && remote[0] == "--" {
				remote = remote[1:]
			}
			return command.Replace("ssh", append(options, remote...)...)
		}),
	}
	f := c.Flags()
	f.SetInterspersed(false) // the flags of COMMAND are its own
	f.IntVar(&s.nic, "nic", -1, "use the address of the NIC with this `INDEX`")
	f.IntVar(&s.port, "port", s.port, "the `PORT` of the guest's SSH server")
	f.StringVar(&s.identity, "identity", "", "log in with the private key in `FILE`")
	f.StringVar(&s.jump, "jump", "", "go by way of `HOST`, as [USER@]HOST[:PORT]")
	f.StringArrayVar(&s.options, "option", nil, "a further `OPTION` of ssh, as in ssh_config(5), such as ForwardAgent=yes (repeatable)")
	a.OwnOutput(c)
	return c
}

// secureShell says how to log in by SSH.
type secureShell struct {
	nic, port      int
	identity, jump string
	options        []string
}

// args returns the arguments of ssh, up to the address.
func (s secureShell) args(i seedbed.Instance, user string) ([]string, error) {
	addr, err := s.addr(i)
	if err != nil {
		return nil, err
	}
	args := []string{"-o", "HostKeyAlias=" + string(i.ID)}
	if i.HostKey != "" {
		// Both files of known hosts are empty, so that only this key is accepted.
		args = append(args, "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=/dev/null", "-o", "GlobalKnownHostsFile=/dev/null",
			"-o", "KnownHostsCommand=/bin/echo "+string(i.ID)+" "+i.HostKey, "-o", "HostKeyAlgorithms=ssh-ed25519", "-o", "UpdateHostKeys=no")
	}
	if s.port != 22 {
		args = append(args, "-p", strconv.Itoa(s.port))
	}
	if identity := s.identity; identity != "" {
		args = append(args, "-o", "IdentitiesOnly=yes", "-i", identity)
	} else if identity = identityOf(i.SSHKeys); identity != "" {
		args = append(args, "-i", identity)
	}
	if s.jump != "" {
		args = append(args, "-J", s.jump)
	}
	for _, o := range s.options {
		args = append(args, "-o", o)
	}
	if user != "" {
		args = append(args, "-l", user)
	}
	return append(args, "--", addr.String()), nil
}

// addr returns the address at which the guest is reached.
func (s secureShell) addr(i seedbed.Instance) (netip.Addr, error) {
	var lent, own []netip.Addr
	for _, n := range i.NICs {
		if s.nic >= 0 && n.Index != s.nic {
			continue
		}
		lent = append(lent, n.Floating, n.Floating6)
		own = append(own, n.Addr, n.Addr6)
	}
	if len(own) == 0 && s.nic >= 0 {
		return netip.Addr{}, seedbed.Errorf(seedbed.ErrNotFound, "instance %s has no NIC %d", i.Name, s.nic)
	}
	for _, a := range append(lent, own...) {
		if a.IsValid() {
			return a, nil
		}
	}
	return netip.Addr{}, seedbed.Errorf(seedbed.ErrNotFound, "instance %s has no address that Seedbed knows: its networks give it none",
		i.Name)
}

// identityOf returns the file in ~/.ssh with the private key of one of the public keys, or nothing.
func identityOf(keys []string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	public, _ := filepath.Glob(filepath.Join(home, ".ssh", "*.pub")) // the pattern is valid
	for _, file := range public {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // ssh tells, if it needs it
		}
		for _, k := range keys {
			private := strings.TrimSuffix(file, ".pub")
			if _, err := os.Stat(private); err == nil && sameKey(string(text), k) {
				return private
			}
		}
	}
	return ""
}

// sameKey reports whether two authorized_keys lines without options have the same key.
func sameKey(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	return len(x) > 1 && len(y) > 1 && x[0] == y[0] && x[1] == y[1]
}
