// Package metadata has the commands that read what a guest is served.
package metadata

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// Command returns the command metadata with its subcommands.
func Command(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{Use: "metadata", Short: "Show what guests are served"})
	c.AddCommand(metadataShow(a), metadataLint(a), metadataLog(a))
	return c
}

// roots are the paths at which the dialects' trees begin.
var roots = map[string][]string{
	"ec2":       {"/latest/meta-data/", "/latest/dynamic/", "/latest/user-data"},
	"openstack": {"/openstack/latest/"},
	"nocloud":   {"/nocloud/meta-data", "/nocloud/user-data", "/nocloud/vendor-data", "/nocloud/network-config"},
}

func metadataShow(a *cli.App) *cobra.Command {
	var dialect string
	c := &cobra.Command{
		Use:   "show VM [PATH]",
		Short: "Show what an instance would get from 169.254.169.254",
		Long: `Show what an instance would get from 169.254.169.254: the answer for one PATH, such as
/latest/user-data, byte for byte; or, without a PATH, everything in the dialect of the
instance's datasource.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if len(args) == 2 {
				return printMetadata(ctx, a, api, args[0], args[1])
			}
			of, err := dialectOf(ctx, a, api, args[0], dialect)
			if err != nil {
				return err
			}
			w := walk{api: api, vm: args[0]}
			for _, root := range roots[of] {
				if err := w.visit(ctx, root, 0); err != nil {
					return err
				}
			}
			return printLeaves(a, w.leaves)
		}),
	}
	c.Flags().StringVar(&dialect, "dialect", "", "`DIALECT`: ec2, openstack or nocloud (default: the instance's datasource)")
	return c
}

// dialectOf returns the requested dialect, or the one that the instance's datasource reads.
func dialectOf(ctx context.Context, a *cli.App, api *client.Client, vm, asked string) (string, error) {
	if asked != "" {
		if roots[asked] == nil {
			return "", cli.Usagef("--dialect %q: expected ec2, openstack or nocloud", asked)
		}
		return asked, nil
	}
	i, err := api.Instance(ctx, vm)
	if err != nil {
		return "", err
	}
	if roots[string(i.Datasource)] == nil {
		return string(seedbed.DatasourceEC2), nil
	}
	return string(i.Datasource), nil
}

func printMetadata(ctx context.Context, a *cli.App, api *client.Client, vm, path string) error {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	body, err := api.Metadata(ctx, vm, path)
	if err != nil {
		return err
	}
	var out io.Writer = a.Out
	if a.Terminal {
		out = cli.NewSafeWriter(a.Out)
		if !bytes.HasSuffix(body, []byte("\n")) {
			body = append(body, '\n')
		}
	}
	_, err = out.Write(body)
	return err
}

func printLeaves(a *cli.App, leaves [][2]string) error {
	if a.JSON() {
		byPath := make(map[string]string, len(leaves))
		for _, l := range leaves {
			byPath[l[0]] = l[1]
		}
		return a.PrintJSON(byPath)
	}
	a.PrintPairs(leaves)
	return nil
}

// walk visits the tree of one instance's metadata.
type walk struct {
	api    *client.Client
	vm     string
	leaves [][2]string
}

// These bounds are far larger than any real tree.
const (
	maxDepth  = 10
	maxLeaves = 1000
)

// visit reads one path: a listing if it ends in a slash, and otherwise a leaf. Only the roots may
// be missing, such as user-data if none is set.
func (w *walk) visit(ctx context.Context, path string, depth int) error {
	body, err := w.api.Metadata(ctx, w.vm, path)
	if errors.Is(err, seedbed.ErrNotFound) && depth == 0 {
		// Either the path or the instance does not exist. Only the latter is an error.
		_, err := w.api.Instance(ctx, w.vm)
		return err
	}
	if err != nil {
		return err
	}
	if !strings.HasSuffix(path, "/") {
		w.leaves = append(w.leaves, [2]string{path, strings.TrimRight(string(body), "\n")})
		return nil
	}
	for entry := range strings.Lines(string(body)) {
		if entry = strings.TrimRight(entry, "\r\n"); entry == "" {
			continue
		}
		if depth == maxDepth || len(w.leaves) == maxLeaves {
			return fmt.Errorf("the metadata of %s does not end at %s", w.vm, path)
		}
		// A key is listed as "0=name" and is a directory of that number (EC2).
		if n, _, ok := strings.Cut(entry, "="); ok && strings.HasSuffix(path, "/public-keys/") {
			entry = n + "/"
		}
		if err := w.visit(ctx, path+entry, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func metadataLog(a *cli.App) *cobra.Command {
	return cli.Resource[seedbed.GuestEvent]{
		Some: cli.SelectedOf((*client.Client).ListAccess),
		Filters: []cli.Filter{
			{Name: "kind", Usage: "only of this `KIND`: lease, access, user-data, report or password"},
			{Name: "path", Usage: "only requests with paths that start with `PREFIX`"},
			{Name: "status", Usage: "only answers with this `STATUS`, such as 404 or 4xx"}, cli.SinceFilter(),
		},
		Most: 100, None: "no requests yet", Unmatched: "no matching requests",
		Head: []string{"when", "kind", "what", "status", "bytes"}, Row: accessRow,
	}.List(a, "log VM", "Show the requests of an instance: metadata, leases, its report")
}

func accessRow(e seedbed.GuestEvent) []string {
	row := []string{e.At.Local().Format(time.DateTime), e.Kind, strings.TrimSpace(e.Method + " " + e.Path), "", ""}
	if e.Kind == seedbed.GuestLease {
		row[2] = fmt.Sprintf("%s %s until %s", e.MAC, e.Addr, e.Until.Local().Format(time.DateTime))
	}
	if e.Status != 0 {
		row[3], row[4] = strconv.Itoa(e.Status), strconv.FormatInt(e.Bytes, 10)
	}
	return row
}
