package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"parley/internal/fault"
	"parley/internal/llm/catalog"
)

// ModelClient returns the HTTP client of all model calls. It honours HTTP_PROXY,
// HTTPS_PROXY and NO_PROXY of the process (never for loopback addresses), and
// trusts the certificates of a PEM file besides the system's; "" = only those.
func ModelClient(caFile string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() // with ProxyFromEnvironment
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 512, 256
	if caFile == "" {
		return &http.Client{Transport: transport}, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // a machine without any
		roots = x509.NewCertPool()
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fault.New(fault.Invalid, "llm_ca_file", "The certificates of llm_ca_file cannot be read: %v.", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fault.New(fault.Invalid, "llm_ca_file", "%s holds no certificate.", caFile).
			WithHint("It must be PEM: text with -----BEGIN CERTIFICATE-----.")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// CheckCatalog reads a file of llm_catalog as the server would, and says what is
// in it. The error is for people.
func CheckCatalog(path string) (found string, err error) {
	table, err := catalog.Load(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d models, the shipped ones included", len(table.Names())), nil
}

// CheckCertificates does so with a file of llm_ca_file.
func CheckCertificates(path string) (found string, err error) {
	if _, err := ModelClient(path); err != nil {
		return "", errors.New(fault.PublicText(err))
	}
	return "its certificates are trusted besides the system's", nil
}
