package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"seedbed/internal/reload"
)

// Certificates are the files of a listener's TLS.
type Certificates struct {
	// Name is what errors call them: "webhook.tls".
	Name string
	// Cert and Key are the server's chain and private key, in PEM.
	Cert, Key string
	// ClientCA is who signs the callers' certificates, in PEM; empty asks for none.
	ClientCA string
}

// NewTLS is the configuration of a listener with those certificates. Files that
// change are read again at the next connection, and connections that are open
// go on; new files that cannot be used leave the old ones in use, and a line in
// the log.
func NewTLS(files Certificates, log *slog.Logger) (*tls.Config, error) {
	kept, err := reload.Open(files.names(), files.load, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files.Name, err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return kept.Now(), nil },
	}, nil
}

func (c Certificates) names() []string {
	return slices.DeleteFunc([]string{c.Cert, c.Key, c.ClientCA}, func(s string) bool { return s == "" })
}

func (c Certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if c.ClientCA == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, err
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", c.ClientCA)
	}
	// Who needs one is known only once the path is.
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	return conf, nil
}
