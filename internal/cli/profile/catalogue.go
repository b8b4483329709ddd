package profile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

// CatalogueCommand returns the command catalogue with its subcommands.
func CatalogueCommand(a *cli.App) *cobra.Command {
	c := cli.Group(&cobra.Command{
		Use: "catalogue", Aliases: []string{"catalog"}, Short: "Copy templates, scripts and profiles to another installation",
		Long: `Copy templates, user-data, scripts and profiles to another installation, as one file
that can be signed. The file only names images and networks, which must exist there. It
does not contain the values of secret parameters; the contents of user-data, scripts and
arguments are in it unchanged.`,
	})
	c.AddCommand(catalogueExport(a), catalogueImport(a))
	return c
}

func catalogueExport(a *cli.App) *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "export FILE", Short: "Write the whole catalogue to a file",
		Long: `Write the whole catalogue to a file that only you can read, or to standard output for -.
With --sign, sign it with an ed25519 key, such as one made by
"openssl genpkey -algorithm ed25519 -out FILE".`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			b := bundle{Format: bundleFormat, Made: a.Now().UTC().Truncate(1e9)}
			raw, err := api.Catalogue(ctx)
			if err != nil {
				return err
			}
			b.Catalogue = jsontext.Value(raw)
			if key != "" {
				signer, err := readSigner(key)
				if err != nil {
					return err
				}
				if err := b.sign(signer); err != nil {
					return err
				}
			}
			text, err := b.format()
			if err != nil {
				return err
			}
			if args[0] == "-" {
				_, err = a.Out.Write(text)
				return err
			}
			if err := cli.ReplaceFile(args[0], text); err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			a.Say("%s written, sha256 %s", args[0], hex.EncodeToString(sum[:]))
			return nil
		}),
	}
	c.Flags().StringVar(&key, "sign", "", "private key `FILE` to sign with")
	return c
}

// importFlags are the flags of the import of a catalogue.
type importFlags struct {
	sha256, key       string
	dryRun, keep, yes bool
}

func catalogueImport(a *cli.App) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use: "import FILE|URI", Short: "Import the catalogue in a file, all or nothing",
		Long: `Import the catalogue in a file, or at an https or file URI, in one transaction, and show
which objects are added, changed or kept. An object whose name is taken, or whose image
or network is missing, is a conflict; nothing is then changed. An https URI needs
--sha256, the digest of the whole file, or --key, the public key of its signer.`,
		RunE: a.Do(func(ctx context.Context, args []string) error { return importCatalogue(ctx, a, args[0], f) }),
	}
	l := c.Flags()
	l.StringVar(&f.sha256, "sha256", "", "expected `DIGEST` of the file")
	l.StringVar(&f.key, "key", "", "`FILE` with the public key of the required signer")
	l.BoolVar(&f.dryRun, "dry-run", false, "only show what would be done")
	l.BoolVar(&f.keep, "keep", false, "keep existing objects instead of changing them")
	cli.AddYes(c, &f.yes)
	return c
}

// readBundle reads a bundle, and checks it against the digest and the key in the flags.
func readBundle(ctx context.Context, name string, f importFlags) (b bundle, err error) {
	if strings.HasPrefix(name, "https:") && f.sha256 == "" && f.key == "" {
		return b, cli.Usagef("an https URI needs --sha256 or --key")
	}
	text, err := fetch(ctx, name, maxBundle)
	if err != nil {
		return b, err
	}
	if f.sha256 != "" {
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); !strings.EqualFold(got, strings.TrimSpace(f.sha256)) {
			return b, seedbed.Errorf(seedbed.ErrForbidden, "%s has sha256 %s, not the given one: it is another file or was changed", name, got)
		}
	}
	if b, err = parseBundle(name, text); err != nil || f.key == "" {
		return b, err
	}
	key, err := readVerifier(f.key)
	if err != nil {
		return b, err
	}
	return b, b.verify(name, key)
}

func importCatalogue(ctx context.Context, a *cli.App, name string, f importFlags) error {
	b, err := readBundle(ctx, name, f)
	if err != nil {
		return err
	}
	if b.Signature != nil && f.key == "" {
		fmt.Fprintf(a.Err, "seedbed: %s is signed by %s, but the signature was not checked: use --key\n", name, fingerprint(b.Signature.Key))
	}
	api, err := a.Client()
	if err != nil {
		return err
	}
	ask := a.Terminal && !f.yes && !f.dryRun
	report, err := api.ImportCatalogue(ctx, json.RawMessage(b.Catalogue), f.dryRun || ask, f.keep)
	if err != nil {
		return err
	}
	if !ask || report.Conflicts() > 0 {
		return printReport(a, report, f.dryRun)
	}
	if err := printReport(a, report, true); err != nil {
		return err
	}
	if !a.Agreed("Import it?") {
		return fmt.Errorf("the catalogue was not changed")
	}
	if report, err = api.ImportCatalogue(ctx, json.RawMessage(b.Catalogue), false, f.keep); err != nil {
		return err
	}
	return printReport(a, report, false)
}

// printReport prints the result of an import. A conflict is an error.
func printReport(a *cli.App, r seedbed.CatalogueReport, tried bool) error {
	row := func(c seedbed.CatalogueChange) []string {
		return []string{c.Action, c.Kind, c.Name, cli.OneLine(c.Detail)}
	}
	if a.JSON() {
		if err := a.PrintJSON(r); err != nil {
			return err
		}
	} else if err := cli.PrintList(a, r.Changes, "the catalogue is empty", []string{"", "what", "name", "why"}, row); err != nil {
		return err
	}
	if n := r.Conflicts(); n > 0 {
		return seedbed.Errorf(seedbed.ErrConflict,
			"%d of %d objects are in conflict, so nothing was changed: add what they name, or remove them from the bundle", n, len(r.Changes))
	}
	if tried {
		a.Say("dry run: nothing was changed")
	}
	return nil
}
