// Package doctor examines the machine and says what Parley can do on it: for
// each finding what was found, what follows, and how to mend it.
//
// It promises to change nothing itself but a file that it makes and removes in
// the data directory, and to end within its time-outs. It does not start a
// server or a sandbox; what a sandbox backend has tried out is handed in.
package doctor

import (
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"time"

	"parley/internal/sandbox"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Limited Level = "limited" // works, with less
	Missing Level = "missing" // needed, and not there
	Skipped Level = "skipped" // not looked at
)

// Finding is the outcome of one check.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Found   string `json:"found"`
	Follows string `json:"follows,omitempty"` // what it means
	Mend    string `json:"mend,omitempty"`    // what to do about it
}

// Options say what to examine.
type Options struct {
	Data    string // the data directory
	Sandbox string // the configured backend: "process" needs no isolation
	LLM     string // base URL of a model endpoint; "" = not checked
	Files   []File // that the configuration names for model calls
	// Proxy says which proxy a request takes, as http.ProxyFromEnvironment does;
	// nil = not checked.
	Proxy func(*http.Request) (*url.URL, error)
	// Probe returns what the local sandbox backend has measured; nil = not available.
	Probe func(ctx context.Context) []sandbox.Guarantee
	// Tiers are further sandbox backends to try.
	Tiers []Tier
	// Server asks the configured server, with the configured key; nil = not checked.
	Server func(ctx context.Context) error
	// ServerNeeded says that the user named the server: it must answer.
	ServerNeeded bool
	Timeout      time.Duration // per check that waits for others; 0 = 5 s

	System fs.FS        // the root file system, for reading only
	HTTP   *http.Client // for the model endpoint
	Now    func() time.Time
}

// doctor is an examination.
type doctor struct {
	Options
	findings []Finding
}

// Run makes all checks, in the order of the report.
func Run(ctx context.Context, opts Options) []Finding {
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	d := &doctor{Options: opts}
	for _, check := range []func(context.Context) Finding{
		d.namespaces, d.overlay, d.cgroups, d.landlock, d.seccomp, d.tun,
	} {
		d.findings = append(d.findings, check(ctx))
	}
	d.measured(ctx)
	d.findings = append(d.findings, d.tiers(ctx)...)
	for _, check := range []func(context.Context) Finding{
		d.dataDirectory, d.diskSpace, d.openFiles, d.clock,
	} {
		d.findings = append(d.findings, check(ctx))
	}
	d.findings = append(d.findings, d.files()...)
	d.findings = append(d.findings, d.proxy(ctx), d.model(ctx), d.server(ctx))
	return d.findings
}

// Healthy reports whether nothing that is needed is missing.
func Healthy(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Missing })
}

// measured adds what the backend has measured. Where it has looked at the same
// thing, its word wins: it has tried what it needs.
func (d *doctor) measured(ctx context.Context) {
	if d.Probe == nil {
		return
	}
	for _, g := range d.Probe(ctx) {
		f := Finding{Check: g.Name, Level: OK, Found: g.Detail}
		if f.Found == "" {
			f.Found = "holds"
		}
		if !g.Holds {
			f.Level, f.Follows = Limited, "the local sandbox does not have this guarantee here"
		}
		i := slices.IndexFunc(d.findings, func(old Finding) bool { return old.Check == g.Name })
		if i < 0 {
			d.findings = append(d.findings, f)
			continue
		}
		if !g.Holds {
			f.Follows, f.Mend = orElse(d.findings[i].Follows, f.Follows), d.findings[i].Mend
			if d.findings[i].Level == Missing {
				f.Level = Missing
			}
		}
		d.findings[i] = f
	}
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// need is Missing for what the local sandbox cannot do without, and Limited
// where no isolation was asked for.
func (d *doctor) need() Level {
	if d.Sandbox == "process" {
		return Limited
	}
	return Missing
}
