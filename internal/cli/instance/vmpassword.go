package instance

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"github.com/spf13/cobra"

	"seedbed"
	"seedbed/api/client"
	"seedbed/internal/cli"
)

func vmPassword(a *cli.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "password VM", Short: "Print the administrator password that a guest posted",
		Long: `Print the administrator password that a guest posted, as cloudbase-init does: encrypted
with the instance's first RSA key, in base64, or with --key the decrypted password. The
key is not sent anywhere.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			i, err := api.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			if i.Password == "" {
				return seedbed.Errorf(seedbed.ErrNotFound, "instance %s has posted no password", i.Name)
			}
			text := i.Password
			if file != "" {
				if text, err = decryptPassword(text, file); err != nil {
					return err
				}
			}
			if a.JSON() {
				return a.PrintJSON(map[string]string{"password": text})
			}
			fmt.Fprintln(a.Out, cli.Printable(text))
			return nil
		}),
	}
	c.Flags().StringVar(&file, "key", "", "decrypt it with the RSA private key in `FILE` (PEM)")
	return c
}

// decryptPassword decrypts a password as "nova get-password" does: base64 of RSA with PKCS #1 v1.5
// padding.
func decryptPassword(encrypted, file string) (string, error) {
	text, err := cli.ReadBounded(file, 64*seedbed.KiB)
	if err != nil {
		return "", fmt.Errorf("--key: %w", err)
	}
	key, err := rsaKey(text)
	if err != nil {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "--key: %s %s", file, err)
	}
	raw, err := base64.StdEncoding.DecodeString(encrypted)
	if err != nil {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "the posted password is not base64: it is not encrypted with a key")
	}
	clear, err := rsa.DecryptPKCS1v15(nil, key, raw)
	if err != nil {
		return "", seedbed.Errorf(seedbed.ErrInvalid, "--key: the password is not encrypted for %s", file)
	}
	return string(clear), nil
}

func rsaKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("is not a PEM file")
	}
	switch block.Type {
	case "RSA PRIVATE KEY":
		if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
			return key, nil
		}
	case "PRIVATE KEY":
		if any, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := any.(*rsa.PrivateKey); ok {
				return key, nil
			}
		}
	case "OPENSSH PRIVATE KEY":
		return nil, fmt.Errorf(`is in OpenSSH's format: convert a copy with "ssh-keygen -p -m PEM -f"`)
	}
	return nil, fmt.Errorf("is not an RSA private key without a passphrase")
}
