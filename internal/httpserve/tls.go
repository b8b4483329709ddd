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

// Certificates names the files of a listener's TLS.
type Certificates struct {
	// Name is the errors' word for them: "webhook.tls".
	Name string
	// Cert and Key are the files of the server's chain and private key, in PEM.
	Cert, Key string
	// ClientCA is the file of the authority for the callers' certificates, in PEM. If it is empty,
	// callers are not asked for a certificate.
	ClientCA string
}

// NewTLS returns the configuration of a listener with those certificates. Changed files are read
// again at the next connection, and open connections continue. If the new files are invalid, the
// old ones stay in use, and the log has a warning.
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
	// Only the path decides whether a request needs a certificate.
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	return conf, nil
}
