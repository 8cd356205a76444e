package doctor

import (
	"context"
	"net"
	"net/http"
	"net/url"
)

// File is a file that the configuration names for model calls.
type File struct {
	Check string // of the finding, and the key that names the file
	Path  string // "" = none is set
	// Read reads it as the server would, and says what is in it.
	Read func(path string) (found string, err error)
	None string // what holds without it
}

// files checks that the server can start with the files that are named.
func (d *doctor) files() []Finding {
	var findings []Finding
	for _, file := range d.Files {
		f := Finding{Check: file.Check, Level: OK}
		if file.Path == "" {
			f.Found = "none is set: " + file.None
			findings = append(findings, f)
			continue
		}
		found, err := file.Read(file.Path)
		f.Found = file.Path + ": " + found
		if err != nil {
			f.Level, f.Found = Missing, err.Error()
			f.Follows, f.Mend = "the server cannot start", "mend the file, or remove "+file.Check+" from the configuration"
		}
		findings = append(findings, f)
	}
	return findings
}

// anEndpoint stands for what models are reached at where none was named.
const anEndpoint = "https://api.openai.com/v1"

// proxy says which way model calls take. Without a network there is nothing
// wrong: models may be on this machine.
func (d *doctor) proxy(ctx context.Context) Finding {
	f := Finding{Check: "llm_proxy"}
	if d.Proxy == nil {
		f.Level, f.Found = Skipped, "not looked at"
		return f
	}
	target := d.LLM
	if target == "" {
		target = anEndpoint
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		f.Level, f.Found = Skipped, "the URL of the endpoint is malformed"
		return f
	}
	by, err := d.Proxy(req)
	switch {
	case err != nil:
		f.Level, f.Found = Limited, "the proxy of the environment is malformed"
		f.Follows, f.Mend = "no model call that needs it can be made", "write HTTPS_PROXY as http://host:port"
	case by == nil:
		f.Level, f.Found = OK, "none for "+req.URL.Host+": calls go out directly"
	default:
		f = d.reach(ctx, f, by, req.URL.Host)
	}
	return f
}

// reach asks whether something listens at a proxy.
func (d *doctor) reach(ctx context.Context, f Finding, by *url.URL, host string) Finding {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addressOf(by))
	if err != nil {
		f.Level, f.Found = Limited, "calls to "+host+" go through "+by.Host+", which does not answer: "+innermost(err)
		f.Follows = "no model can be reached through it"
		f.Mend = "check HTTPS_PROXY of the server's environment; hosts that need no proxy belong in NO_PROXY"
		return f
	}
	_ = conn.Close()
	f.Level, f.Found = OK, "calls to "+host+" go through "+by.Host
	return f
}

func addressOf(proxy *url.URL) string {
	if proxy.Port() != "" {
		return proxy.Host
	}
	port := map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}
