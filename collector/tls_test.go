package main_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spillway/shared/rig/proc"
)

// A renewed certificate is served after SIGHUP, to new connections; one that is
// broken is refused and changes nothing. Open connections never notice.
func reloadsItsCertificate(t *testing.T, program string) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certify(t, cert, key, "first.example")
	p := abuse(t, program, fmt.Sprintf("http: {tls: {cert_file: %s, key_file: %s}}\n", cert, key))

	open := p.dialTLS(t)
	if got := p.postTLS(t, open); got != "first.example" {
		t.Fatalf("the certificate is for %s", got)
	}
	hangUp := func() {
		t.Helper()
		if err := p.Collector.Process().Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	certify(t, cert, key, "second.example")
	hangUp()
	p.serving(t, "second.example")

	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp()
	proc.Eventually(t, patience, func() error {
		r, err := p.Health(t.Context())
		if err == nil && !slices.ContainsFunc(r.Problems, func(text string) bool { return strings.Contains(text, "reload was refused") }) {
			err = fmt.Errorf("problems are %q, want one about the refused reload", r.Problems)
		}
		return err
	})
	p.serving(t, "second.example")

	certify(t, cert, key, "third.example")
	hangUp()
	p.serving(t, "third.example")
	if got := p.postTLS(t, open); got != "first.example" {
		t.Errorf("the open connection's certificate is for %s", got)
	}
	if n := len(p.Collector.Restarts()); n > 0 {
		t.Errorf("the collector was restarted %d times", n)
	}
}

func (p *process) dialTLS(t *testing.T) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", p.Addr(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// postTLS sends an event over the connection and returns whose certificate it has.
func (p *process) postTLS(t *testing.T, c *tls.Conn) string {
	t.Helper()
	if _, err := io.WriteString(c, "POST /a/b HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nabc"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || string(body) != "ok" || err != nil {
		t.Errorf("answered %s %q, %v", resp.Status, body, err)
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// serving waits until new connections get the certificate.
func (p *process) serving(t *testing.T, name string) {
	t.Helper()
	proc.Eventually(t, patience, func() error {
		if got := p.postTLS(t, p.dialTLS(t)); got != name {
			return fmt.Errorf("the certificate is for %s, want %s", got, name)
		}
		return nil
	})
}

// certify writes a certificate for name and its key.
func certify(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
