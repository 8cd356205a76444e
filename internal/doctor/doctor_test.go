package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"parley/internal/doctor"
	"parley/internal/fault"
	"parley/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options examine a healthy machine, but for what the kernel really has.
func options(t *testing.T) doctor.Options {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	return doctor.Options{Data: data, Sandbox: "auto", System: machine(nil), HTTP: http.DefaultClient, Timeout: 2 * time.Second,
		Now: func() time.Time { return time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) }}
}

// machine is a system's readable files; changes replace or, with "-", remove.
func machine(changes map[string]string) fs.FS {
	files := map[string]string{
		"proc/filesystems":                          "nodev\ttmpfs\n\text4\nnodev\toverlay\n",
		"proc/sys/kernel/seccomp/actions_avail":     "kill_process errno allow",
		"proc/self/cgroup":                          "0::/\n",
		"sys/fs/cgroup/cgroup.controllers":          "cpu memory pids",
		"proc/sys/user/max_user_namespaces":         "15000",
		"proc/sys/kernel/unprivileged_userns_clone": "1",
	}
	for name, text := range changes {
		files[name] = text
		if text == "-" {
			delete(files, name)
		}
	}
	system := fstest.MapFS{}
	for name, text := range files {
		system[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return system
}

func find(t *testing.T, findings []doctor.Finding, check string) doctor.Finding {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %s", check)
	return doctor.Finding{}
}

// Every finding that is not fine says what follows; every check reports once.
func TestFindingsAreComplete(t *testing.T) {
	opts := options(t)
	opts.System = fstest.MapFS{}
	findings := doctor.Run(t.Context(), opts)
	seen := map[string]bool{}
	for _, f := range findings {
		if seen[f.Check] || f.Found == "" {
			t.Errorf("finding %+v", f)
		}
		seen[f.Check] = true
		if (f.Level == doctor.Limited || f.Level == doctor.Missing) && (f.Follows == "" || f.Mend == "") {
			t.Errorf("%s does not say what follows and how to mend it: %+v", f.Check, f)
		}
	}
	if len(findings) != 13 {
		t.Errorf("%d findings", len(findings))
	}
}

// A backend that cannot be had is missing only where a template needs it.
func TestTiers(t *testing.T) {
	opts := options(t)
	broken := func(context.Context) ([]sandbox.Guarantee, error) {
		return nil, fault.New(fault.Unavailable, "none", "There is no engine.").WithHint("Start one.")
	}
	opts.Tiers = []doctor.Tier{{Name: "spare", Try: broken}, {Name: "needed", Needed: true, Try: broken},
		{Name: "there", Try: func(context.Context) ([]sandbox.Guarantee, error) {
			return []sandbox.Guarantee{{Name: "memory_limit", Holds: true}, {Name: "disk_limit", Detail: "none"}}, nil
		}}}
	findings := doctor.Run(t.Context(), opts)
	if f := find(t, findings, "spare"); f.Level != doctor.Skipped || f.Found != "There is no engine. Start one." {
		t.Errorf("%+v", f)
	}
	if f := find(t, findings, "needed"); f.Level != doctor.Missing {
		t.Errorf("%+v", f)
	}
	if f := find(t, findings, "there"); f.Level != doctor.OK || !strings.Contains(f.Found, "memory_limit") || !strings.Contains(f.Follows, "disk_limit (none)") {
		t.Errorf("%+v", f)
	}
}

func TestSystemFiles(t *testing.T) {
	tests := map[string]struct {
		changes map[string]string
		check   string
		level   doctor.Level
		text    string
	}{
		"overlay":       {nil, "overlay", doctor.OK, "overlay"},
		"no overlay":    {map[string]string{"proc/filesystems": "nodev\ttmpfs\n"}, "overlay", doctor.Limited, "modprobe overlay"},
		"seccomp":       {nil, "seccomp", doctor.OK, "errno"},
		"no seccomp":    {map[string]string{"proc/sys/kernel/seccomp/actions_avail": "-"}, "seccomp", doctor.Limited, "CONFIG_SECCOMP_FILTER"},
		"no cgroups":    {map[string]string{"sys/fs/cgroup/cgroup.controllers": "-"}, "cgroup", doctor.Limited, "not limited"},
		"no delegation": {map[string]string{"proc/self/cgroup": "0::/nonexistent\n"}, "cgroup", doctor.Limited, "Delegate=yes"},
		"cgroup v1": {map[string]string{"sys/fs/cgroup/cgroup.controllers": "-", "sys/fs/cgroup/memory/tasks": "", "proc/self/cgroup": "5:cpu,memory:/nonexistent\n"},
			"cgroup", doctor.Limited, "/sys/fs/cgroup/memory/nonexistent is not writable"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.System = machine(test.changes)
			f := find(t, doctor.Run(t.Context(), opts), test.check)
			if all := f.Found + f.Follows + f.Mend; f.Level != test.level || !strings.Contains(all, test.text) {
				t.Errorf("finding %+v", f)
			}
		})
	}
}

func TestDataDirectory(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(base, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		data  string
		level doctor.Level
		text  string
	}{
		"private":    {options(t).Data, doctor.OK, ""},
		"not yet":    {filepath.Join(base, "a/b"), doctor.OK, "will make it"},
		"a file":     {file, doctor.Missing, "--data"},
		"open":       {open, doctor.Limited, "chmod 700"},
		"impossible": {filepath.Join(file, "below"), doctor.Missing, "cannot start"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.Data = test.data
			findings := doctor.Run(t.Context(), opts)
			f := find(t, findings, "data_directory")
			if all := f.Found + f.Follows + f.Mend; f.Level != test.level || !strings.Contains(all, test.text) {
				t.Errorf("finding %+v", f)
			}
			if test.level == doctor.Missing && doctor.Healthy(findings) {
				t.Error("it counts as healthy")
			}
		})
	}
}

func TestClock(t *testing.T) {
	opts := options(t)
	opts.Now = func() time.Time { return time.Unix(0, 0) }
	if f := find(t, doctor.Run(t.Context(), opts), "clock"); f.Level != doctor.Missing {
		t.Errorf("finding %+v", f)
	}
}

func TestModelEndpoint(t *testing.T) {
	date := "Fri, 20 Nov 2026 00:00:10 GMT"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Date", date)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	opts := options(t)
	opts.HTTP, opts.LLM = server.Client(), server.URL+"/v1/"
	if f := find(t, doctor.Run(t.Context(), opts), "llm_endpoint"); f.Level != doctor.OK || !strings.Contains(f.Found, "401") {
		t.Errorf("finding %+v", f)
	}
	date = "Fri, 20 Nov 2026 03:00:00 GMT"
	if f := find(t, doctor.Run(t.Context(), opts), "llm_endpoint"); f.Level != doctor.Limited || !strings.Contains(f.Found, "3h0m0s") {
		t.Errorf("finding %+v", f)
	}
	server.Close()
	for _, url := range []string{server.URL, "http://a b"} {
		opts.LLM = url
		if f := find(t, doctor.Run(t.Context(), opts), "llm_endpoint"); f.Level != doctor.Missing {
			t.Errorf("finding %+v", f)
		}
	}
}

func TestModelEndpointThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	opts := options(t)
	opts.HTTP, opts.LLM, opts.Timeout = server.Client(), server.URL, 50*time.Millisecond
	if f := find(t, doctor.Run(t.Context(), opts), "llm_endpoint"); f.Level != doctor.Missing {
		t.Errorf("finding %+v", f)
	}
}

func TestServer(t *testing.T) {
	away := errors.New("no Parley server answers\nStart one with: parley serve")
	tests := map[string]struct {
		ask    func(context.Context) error
		needed bool
		want   doctor.Level
	}{
		"answers":     {func(context.Context) error { return nil }, true, doctor.OK},
		"away":        {func(context.Context) error { return away }, false, doctor.Skipped},
		"away, named": {func(context.Context) error { return away }, true, doctor.Missing},
		"not asked":   {nil, false, doctor.Skipped},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := options(t)
			opts.Server, opts.ServerNeeded = test.ask, test.needed
			if f := find(t, doctor.Run(t.Context(), opts), "server"); f.Level != test.want || strings.Contains(f.Found, "\n") {
				t.Errorf("finding %+v", f)
			}
		})
	}
}

// What the backend has measured wins over what the files suggest.
func TestProbeWins(t *testing.T) {
	opts := options(t)
	opts.Probe = func(context.Context) []sandbox.Guarantee {
		return []sandbox.Guarantee{{Name: "overlay", Detail: "mount refused"}, {Name: "seccomp", Holds: true, Detail: "tried"}, {Name: "special", Holds: true}}
	}
	findings := doctor.Run(t.Context(), opts)
	if f := find(t, findings, "overlay"); f.Level != doctor.Limited || f.Found != "mount refused" || f.Follows == "" {
		t.Errorf("finding %+v", f)
	}
	if f := find(t, findings, "seccomp"); f.Level != doctor.OK || f.Found != "tried" {
		t.Errorf("finding %+v", f)
	}
	if f := find(t, findings, "special"); f.Level != doctor.OK {
		t.Errorf("finding %+v", f)
	}
	opts.System = fstest.MapFS{}
	opts.Sandbox = "process"
	if f := find(t, doctor.Run(t.Context(), opts), "user_namespace"); f.Level == doctor.Missing {
		t.Errorf("without isolation namespaces are not needed: %+v", f)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	err := doctor.Write(&out, []doctor.Finding{
		{Check: "a", Level: doctor.OK, Found: "fine"},
		{Check: "longer", Level: doctor.Missing, Found: "gone", Follows: "nothing works", Mend: "buy one"},
	})
	want := "ok       a       fine\nmissing  longer  gone\n                 so: nothing works\n                 mend: buy one\n\nSomething that is needed is missing.\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestModelFiles(t *testing.T) {
	opts := options(t)
	read := func(path string) (string, error) {
		if strings.Contains(path, "bad") {
			return "", errors.New(path + ": line 3: no such key")
		}
		return "12 models", nil
	}
	opts.Files = []doctor.File{{Check: "llm_catalog", Path: "/etc/models.yaml", Read: read}, {Check: "llm_ca_file", Path: "/etc/bad.pem", Read: read},
		{Check: "other", Read: read, None: "the shipped table is used"}}
	findings := doctor.Run(t.Context(), opts)
	if f := find(t, findings, "llm_catalog"); f.Level != doctor.OK || f.Found != "/etc/models.yaml: 12 models" {
		t.Errorf("%+v", f)
	}
	if f := find(t, findings, "llm_ca_file"); f.Level != doctor.Missing || !strings.Contains(f.Found, "line 3") || f.Follows == "" || !strings.Contains(f.Mend, "llm_ca_file") {
		t.Errorf("%+v", f)
	}
	if f := find(t, findings, "other"); f.Level != doctor.OK || !strings.Contains(f.Found, "shipped") {
		t.Errorf("%+v", f)
	}
	if doctor.Healthy(findings) {
		t.Error("a file that stops the server is no trouble")
	}
}

func TestProxy(t *testing.T) {
	listening := httptest.NewServer(http.NotFoundHandler())
	defer listening.Close()
	parse := func(s string) func(*http.Request) (*url.URL, error) {
		return func(*http.Request) (*url.URL, error) {
			if s == "" {
				return nil, nil
			}
			return url.Parse(s)
		}
	}
	for name, tt := range map[string]struct {
		proxy func(*http.Request) (*url.URL, error)
		level doctor.Level
		found string
	}{
		"not looked at": {nil, doctor.Skipped, ""},
		"none":          {parse(""), doctor.OK, "calls go out directly"},
		"there":         {parse(strings.Replace(listening.URL, "//", "//user:hunter2@", 1)), doctor.OK, "go through 127.0.0.1"},
		"gone":          {parse("http://127.0.0.1:1"), doctor.Limited, "does not answer"},
		"no port":       {parse("http://127.0.0.254"), doctor.Limited, "does not answer"},
		"malformed":     {parse("http://[::1"), doctor.Limited, "malformed"},
	} {
		opts := options(t)
		opts.Proxy = tt.proxy
		f := find(t, doctor.Run(t.Context(), opts), "llm_proxy")
		if f.Level != tt.level || !strings.Contains(f.Found, tt.found) || strings.Contains(f.Found, "hunter2") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
