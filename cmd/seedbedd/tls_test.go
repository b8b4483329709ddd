package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/internal/config"
)

// TestAPITLS checks that the API's TCP address uses TLS if it has a certificate, and otherwise
// does not.
func TestAPITLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := config.API{Listen: "127.0.0.1:0", TLS: config.APITLS{Cert: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}}
	log := slog.New(slog.DiscardHandler)
	if conf, err := apiTLS(config.API{}, log); conf != nil || err != nil {
		t.Errorf("without a certificate: %v, %v", conf, err)
	}
	if _, err := apiTLS(c, log); err == nil || !strings.Contains(err.Error(), "api.tls") {
		t.Errorf("without the files: %v", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{c.TLS.Cert: {Type: "CERTIFICATE", Bytes: der},
		c.TLS.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := apiTLS(c, log)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", c.Listen, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			conn.(*tls.Conn).Handshake()
			conn.Close()
		}
	}()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(own)
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if got := apiURL(c); got != "https://127.0.0.1:0" {
		t.Error(got)
	}
	if got := apiURL(config.API{Listen: "127.0.0.1:7370"}); got != "http://127.0.0.1:7370" {
		t.Error(got)
	}
}
