package httpserve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
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

// lookAgain is how often the files are looked at, at most.
const lookAgain = time.Second

// keeper serves what the files hold, and what they hold next once they change.
type keeper struct {
	files Certificates
	log   *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string
	conf   *tls.Config
}

// NewTLS is the configuration of a listener with those certificates. Files that
// change are read again at the next connection, and connections that are open
// go on; new files that cannot be used leave the old ones in use, and a line in
// the log.
func NewTLS(files Certificates, log *slog.Logger) (*tls.Config, error) {
	k := &keeper{files: files, log: log}
	stamp, err := files.stamp()
	if err != nil {
		return nil, err
	}
	if k.conf, err = files.load(); err != nil {
		return nil, err
	}
	k.stamp, k.looked = stamp, time.Now()
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.now(), nil },
	}, nil
}

func (c Certificates) names() []string {
	return slices.DeleteFunc([]string{c.Cert, c.Key, c.ClientCA}, func(s string) bool { return s == "" })
}

// stamp changes when one of the files does.
func (c Certificates) stamp() (string, error) {
	all := ""
	for _, name := range c.names() {
		fi, err := os.Stat(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.Name, err)
		}
		all += fmt.Sprintf("%d %d;", fi.ModTime().UnixNano(), fi.Size())
	}
	return all, nil
}

func (c Certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if c.ClientCA == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no certificate in PEM", c.Name, c.ClientCA)
	}
	// Who needs one is known only once the path is.
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	return conf, nil
}

// now is the configuration of a connection that begins.
func (k *keeper) now() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < lookAgain {
		return k.conf
	}
	k.looked = time.Now()
	stamp, err := k.files.stamp()
	if err == nil && stamp == k.stamp {
		return k.conf
	}
	var conf *tls.Config
	if err == nil {
		conf, err = k.files.load()
	}
	if err != nil {
		k.log.Error("new certificates cannot be used, the old ones stay", "err", err)
		return k.conf
	}
	k.conf, k.stamp = conf, stamp
	k.log.Info("certificates read again", "cert", k.files.Cert)
	return conf
}
