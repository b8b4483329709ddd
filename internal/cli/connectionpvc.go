package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"seedbed"
)

// pvcConnection is an entry of pvc.json, in which PVC's client keeps its connections.
type pvcConnection struct {
	Description string          `json:"description"`
	Host        string          `json:"host"`
	Port        json.RawMessage `json:"port"` // a number, or one in quotes
	Scheme      string          `json:"scheme"`
	APIKey      string          `json:"api_key"`
	// CfgFile replaces the other fields in PVC's "local" entry.
	CfgFile string `json:"cfgfile"`
}

func (a *App) connectionImport() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use: "import-pvc [FILE]", Short: "Import the connections of PVC's client",
		Long: `Import the connections of PVC's client, with their keys, from its pvc.json
($PVC_CLIENT_DIR/pvc.json, else ~/.config/pvc/pvc.json). Its "local" is left out: it
reads PVC's own configuration.`,
		RunE: a.Do(func(_ context.Context, args []string) error {
			path := filepath.Join(cmp.Or(a.Getenv("PVC_CLIENT_DIR"), filepath.Join(a.Getenv("HOME"), ".config", "pvc")), "pvc.json")
			if len(args) == 1 {
				path = args[0]
			}
			text, err := ReadBounded(path, maxSettings)
			if err != nil {
				return err
			}
			found, left, err := readPVC(path, text)
			if err != nil {
				return err
			}
			for _, why := range left {
				fmt.Fprintln(a.Err, "seedbed:", OneLine(why))
			}
			names := slices.Sorted(maps.Keys(found))
			err = a.changeSettings(func(s *settings) error {
				for _, name := range names {
					if err := s.add(name, found[name], replace, false); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, name := range names {
				a.Say("connection %s: %s", name, found[name].URL)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&replace, "replace", false, "replace connections of the same names")
	return c
}

// readPVC reads a pvc.json. left names the entries that were skipped, and why.
func readPVC(path string, text []byte) (found map[string]connection, left []string, err error) {
	var all map[string]pvcConnection
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, nil, seedbed.Errorf(seedbed.ErrInvalid, "%s is not a pvc.json: expected an object with one object for each connection", path)
	}
	found = map[string]connection{}
	for name, p := range all {
		if p.CfgFile != "" {
			left = append(left, fmt.Sprintf("connection %s is skipped: it reads %s, which belongs to PVC", name, p.CfgFile))
			continue
		}
		if err := seedbed.CheckName("connection", name); err != nil {
			left = append(left, fmt.Sprintf("connection %q is skipped: %v", name, err))
			continue
		}
		var port any
		if len(p.Port) > 0 && json.Unmarshal(p.Port, &port) != nil || p.Host == "" {
			left = append(left, fmt.Sprintf("connection %s is skipped: it has no host and port", name))
			continue
		}
		u := url.URL{Scheme: cmp.Or(p.Scheme, "http"), Host: p.Host}
		if port != nil {
			u.Host = net.JoinHostPort(p.Host, fmt.Sprint(port))
		}
		found[name] = connection{Description: p.Description, URL: u.String(), Token: p.APIKey}
	}
	slices.Sort(left)
	return found, left, nil
}
