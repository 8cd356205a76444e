package webui_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/test/testkit/parleytest"
)

// nginxPath is below the names of this machine what the document has below
// parley.example.org.
const nginxPath = "/tools/parley"

// nginx starts a server of its own behind nginx, configured with what docs/web-ui.md
// says, and returns the address. It is "" where nginx is not installed, which a skipped
// test tells.
func nginx(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx") // not on the path of ordinary users
	}
	if err != nil {
		t.Run("nginx", func(t *testing.T) { missing(t, "nginx", "nginx is not installed (apt-get install nginx)") })
		return ""
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := lis.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	_ = lis.Close()
	public := "https://localhost:" + port + nginxPath
	server := parleytest.Start(t, parleytest.Options{Demo: true, Args: []string{"--public-url", public, "--preview-host", "preview.localhost"}})

	dir := t.TempDir()
	certificate(t, dir)
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(nginxConf(t, dir, at, strings.TrimPrefix(server.URL, "http://"))), 0o600); err != nil {
		t.Fatal(err)
	}
	runNginx(t, program, dir, conf, public)
	return public
}

// nginxConf is the document's snippet in a file that an ordinary user can run, too:
// nothing outside of dir is written.
func nginxConf(t *testing.T, dir, listen, target string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/web-ui.md")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, ok := strings.Cut(string(text), "```nginx\n")
	snippet, _, closed := strings.Cut(snippet, "```")
	if !ok || !closed {
		t.Fatal("docs/web-ui.md has no configuration of nginx")
	}
	for _, change := range [][2]string{{"listen 443 ", "listen " + listen + " "}, {"/etc/ssl/parley/", dir + "/"},
		{"*.preview.example.org", "*.preview.localhost"}, {"parley.example.org", "localhost"}, {"127.0.0.1:3000", target}} {
		if !strings.Contains(snippet, change[0]) {
			t.Fatalf("the configuration in docs/web-ui.md does not have %q", change[0])
		}
		snippet = strings.ReplaceAll(snippet, change[0], change[1])
	}
	frame := "daemon off;\npid DIR/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	if os.Geteuid() == 0 {
		frame = "user root;\n" + frame // others must not read the temporary directory
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		frame += kind + "_temp_path DIR/" + kind + ";\n"
	}
	return strings.ReplaceAll(frame, "DIR", dir) + snippet + "}\n"
}

// runNginx runs it until the test ends, and waits until it answers.
func runNginx(t *testing.T, program, dir, conf, public string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command(program, "-p", dir, "-e", "stderr", "-c", conf)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // ends the workers, too
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			t.Error("nginx did not end")
		}
		if t.Failed() {
			t.Logf("nginx:\n%s", said.String())
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is of this test
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := client.Get(public + "/ready"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
			t.Fatalf("nginx ended:\n%s", said.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nginx does not answer")
		}
	}
}

// certificate writes one for the names of the test, signed by itself.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost", "*.preview.localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
