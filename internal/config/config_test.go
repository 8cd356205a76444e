package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"parley/internal/account"
	"parley/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sources returns sources with a home directory of the test's own.
func sources(t *testing.T, environ ...string) config.Sources {
	t.Helper()
	return config.Sources{Environ: append([]string{"HOME=" + t.TempDir()}, environ...)}
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parseFlags(t *testing.T, scope config.Scope, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags, scope)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func load(t *testing.T, src config.Sources) *config.Loaded {
	t.Helper()
	l, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDefaults(t *testing.T) {
	l := load(t, config.Sources{Environ: []string{"HOME=/home/u"}})
	c := l.Config
	got := []any{c.Listen, c.Data, c.Sandbox, c.Demo, c.LLMMaxAttempts, c.LLMRetryMin, c.LLMRetryMax, c.HostDirectories,
		c.LLMConcurrency, c.LLMCatalog, c.LLMCAFile, c.DailyBudget, c.UnpricedTaskTokens, c.UnpricedDailyTokens, c.AutoTitles, c.AWSCredentials, c.AWSBearerToken.IsSet()}
	want := []any{"127.0.0.1:3000", "/home/u/.local/share/parley", "auto", false, 5, 8 * time.Second, 64 * time.Second, "proof",
		64, "", "", 0.0, int64(2_000_000), int64(10_000_000), true, true, false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, s := range l.Settings {
		if s.Origin != "default" {
			t.Errorf("%s has origin %q without any source", s.Key, s.Origin)
		}
	}
}

func TestModelKeys(t *testing.T) {
	src := sources(t, "PARLEY_DAILY_BUDGET=12.5", "PARLEY_LLM_CATALOG=models.yaml", "PARLEY_AUTO_TITLES=false", "AWS_BEARER_TOKEN_BEDROCK=bedrock-key")
	src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), "unpriced_task_tokens: 0\nllm_ca_file: /etc/ssl/house.pem\ndaily_budget: 3\n")
	src.Flags = parseFlags(t, config.ServerScope, "--llm-concurrency=3")
	c := load(t, src).Config
	if c.DailyBudget != 12.5 || c.UnpricedTaskTokens != 0 || c.LLMCAFile != "/etc/ssl/house.pem" || c.LLMConcurrency != 3 || !filepath.IsAbs(c.LLMCatalog) ||
		c.AutoTitles || c.AWSBearerToken.Reveal() != "bedrock-key" {
		t.Errorf("%+v", c)
	}
}

func TestDefaultData(t *testing.T) {
	tests := map[string]struct {
		environ []string
		root    bool
		want    string
	}{
		"home":         {[]string{"HOME=/h"}, false, "/h/.local/share/parley"},
		"xdg":          {[]string{"HOME=/h", "XDG_DATA_HOME=/x"}, false, "/x/parley"},
		"relative xdg": {[]string{"HOME=/h", "XDG_DATA_HOME=x"}, false, "/h/.local/share/parley"},
		"root":         {[]string{"HOME=/h"}, true, "/var/lib/parley"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := load(t, config.Sources{Environ: test.environ, Root: test.root})
			if l.Config.Data != test.want {
				t.Errorf("data is %s, want %s", l.Config.Data, test.want)
			}
		})
	}
	if _, err := config.Load(config.Sources{}); err == nil || !strings.Contains(err.Error(), "set --data or PARLEY_DATA") {
		t.Errorf("without a home directory: %v", err)
	}
}

func TestPrecedence(t *testing.T) {
	src := sources(t, "PARLEY_LISTEN=127.0.0.1:2", "PARLEY_LOG_LEVEL=debug", "PARLEY_MAX_SANDBOXES=")
	src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"),
		"# a comment\nlisten: 127.0.0.1:1\nlog_level: warn\nmax_sandboxes: 7\ncors_origins: [https://a.example, 'http://B.example:81/']\n")
	src.Flags = parseFlags(t, config.ServerScope, "--listen=127.0.0.1:3", "--demo")
	l := load(t, src)
	type pair struct{ Value, Origin string }
	got := map[string]pair{}
	for _, s := range l.Settings {
		if s.Origin != "default" {
			got[s.Key] = pair{s.Value, s.Origin}
		}
	}
	want := map[string]pair{
		"listen":        {"127.0.0.1:3", "flag --listen"},
		"demo":          {"true", "flag --demo"},
		"log_level":     {"debug", "environment PARLEY_LOG_LEVEL"},
		"max_sandboxes": {"7", "file " + src.File + ":4"},
		"cors_origins":  {"https://a.example,http://b.example:81", "file " + src.File + ":5"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProblems(t *testing.T) {
	tests := map[string]struct {
		environ []string
		file    string
		flags   []string
		want    []string // parts of the message
	}{
		"unknown file key":      {file: "lisen: x", want: []string{"lisen: no such key (did you mean listen?)", "p.yaml:1"}},
		"unknown variable":      {environ: []string{"PARLEY_PUBLIC_ULR=http://x"}, want: []string{"PARLEY_PUBLIC_ULR", "did you mean PARLEY_PUBLIC_URL?"}},
		"nothing near":          {file: "qqqqqqqqqqqq: x", want: []string{"no such key (file"}},
		"duplicate key":         {file: "demo: true\ndemo: false", want: []string{"line 2", "there twice"}},
		"nested":                {file: "listen: {port: 1}", want: []string{"listen must be a plain value"}},
		"null":                  {file: "listen:", want: []string{"listen has no value"}},
		"no mapping":            {file: "- a", want: []string{"no mapping"}},
		"two documents":         {file: "demo: true\n---\ndemo: false", want: []string{"more than one document"}},
		"no yaml":               {file: "a: [", want: []string{"p.yaml"}},
		"listen":                {environ: []string{"PARLEY_LISTEN=3000"}, want: []string{`"3000" is not host:port`, "environment PARLEY_LISTEN"}},
		"port":                  {flags: []string{"--listen=127.0.0.1:70000"}, want: []string{"--listen: ", "0 to 65535", "flag --listen"}},
		"public url":            {environ: []string{"PARLEY_PUBLIC_URL=example.org"}, want: []string{"http:// or https://"}},
		"public url with query": {environ: []string{"PARLEY_PUBLIC_URL=http://a/?b"}, want: []string{"no user, query or fragment"}},
		"enum":                  {environ: []string{"PARLEY_SANDBOX=locl"}, want: []string{"none of auto, local, docker, gvisor, process", "did you mean local?"}},
		"bool":                  {file: "demo: maybe", want: []string{"neither true nor false"}},
		"number":                {file: "max_sandboxes: 0", want: []string{"0 is outside 1 to"}},
		"no number":             {file: "max_sandboxes: many", want: []string{"no whole number"}},
		"size":                  {file: "sandbox_memory: 4 gigs", want: []string{"no size"}},
		"size overflow":         {file: "sandbox_memory: 9999999999GiB", want: []string{"no size"}},
		"small size":            {file: "sandbox_memory: 1KiB", want: []string{"less than 64MiB"}},
		"duration":              {file: "idle_timeout: 20", want: []string{"with a unit"}},
		"negative duration":     {file: "idle_timeout: -1s", want: []string{"outside"}},
		"level":                 {file: "log_level: wrn", want: []string{"did you mean warn?"}},
		"origin":                {file: "cors_origins: example.org", want: []string{"no origin"}},
		"host with port":        {file: "allowed_hosts: 'a:1'", want: []string{"without scheme and port"}},
		"budget":                {environ: []string{"PARLEY_DAILY_BUDGET=ten"}, want: []string{"no amount of USD", "12.50"}},
		"negative budget":       {file: "daily_budget: -1", want: []string{"outside 0 to 1000000"}},
		"endless budget":        {file: "daily_budget: .inf", want: []string{"daily_budget"}},
		"no concurrency":        {file: "llm_concurrency: 0", want: []string{"0 is outside 1 to"}},
		"bad catalogue path":    {environ: []string{"PARLEY_LLM_CATALOG=a\x00b"}, want: []string{"no path"}},
		"misspelt catalogue":    {file: "llm_catalogue: x", want: []string{"did you mean llm_catalog?"}},
		"retry order":           {file: "llm_retry_max: 1s", want: []string{"less than llm_retry_min, 8s (default)"}},
		"several at once":       {file: "a1: 1\nlisten: x", environ: []string{"PARLEY_DEMO=2"}, want: []string{"a1", "listen", "PARLEY_DEMO"}},
		"short key":             {environ: []string{"SESSION_API_KEY=abc"}, want: []string{"SESSION_API_KEY: the key has 3 characters", "openssl"}},
		"bad data":              {environ: []string{"PARLEY_DATA=a\x00b"}, want: []string{"no path"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			src := sources(t, test.environ...)
			if test.file != "" {
				src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), test.file)
			}
			if test.flags != nil {
				src.Flags = parseFlags(t, config.ServerScope, test.flags...)
			}
			_, err := config.Load(src)
			var bad *config.Error
			if !errors.As(err, &bad) {
				t.Fatalf("error is %v, want *config.Error", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestWhichFile(t *testing.T) {
	home := t.TempDir()
	inHome := writeFile(t, home+"/.config/parley/parley.yaml", "log_level: warn")
	named := writeFile(t, t.TempDir()+"/other.yaml", "log_level: error")
	tests := map[string]struct {
		src  config.Sources
		want string
	}{
		"home":      {config.Sources{Environ: []string{"HOME=" + home}}, inHome},
		"xdg":       {config.Sources{Environ: []string{"HOME=/nonexistent", "XDG_CONFIG_HOME=" + home + "/.config"}}, inHome},
		"variable":  {config.Sources{Environ: []string{"HOME=" + home, "PARLEY_CONFIG=" + named}}, named},
		"flag wins": {config.Sources{Environ: []string{"HOME=" + home, "PARLEY_CONFIG=/nonexistent"}, Flags: parseFlags(t, config.ServerScope, "--config="+named)}, named},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if l := load(t, test.src); l.File != test.want {
				t.Errorf("read %q, want %q", l.File, test.want)
			}
		})
	}
	_, err := config.Load(config.Sources{Environ: []string{"HOME=" + home, "PARLEY_CONFIG=/nonexistent"}})
	if err == nil {
		t.Error("a named file that does not exist is not an error")
	}
}

// A parley.yaml in the current directory belongs to a repository.
func TestCurrentDirectoryIsNotRead(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "parley.yaml", "no_such_key: 1")
	if l := load(t, sources(t)); l.File != "" {
		t.Errorf("read %s", l.File)
	}
}

func TestSecrets(t *testing.T) {
	src := sources(t, "SESSION_API_KEY=weak-one", "PARLEY_SESSION_API_KEY=strong-one")
	l := load(t, src)
	if got := l.Config.SessionAPIKey.Reveal(); got != "strong-one" {
		t.Errorf("key is %q", got)
	}
	if got := l.Origin("session_api_key"); got != "environment PARLEY_SESSION_API_KEY" {
		t.Errorf("origin is %q", got)
	}
	shown, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %s", l, shown); strings.Contains(text, "-one") || !strings.Contains(text, account.Mask) {
		t.Errorf("not masked: %s", text)
	}
	if l := load(t, sources(t, "SESSION_API_KEY=alone-one", "PARLEY_TEST_X=1")); l.Config.SessionAPIKey.Reveal() != "alone-one" {
		t.Error("SESSION_API_KEY alone is not accepted")
	}
	_, err = config.Load(sources(t, "SESSION_API_KEY=has\nnewline"))
	if err == nil || strings.Contains(err.Error(), "newline") {
		t.Errorf("a wrong key must be refused without repeating it: %v", err)
	}
}

func TestSharedSecretFileWarns(t *testing.T) {
	src := sources(t)
	src.File = writeFile(t, filepath.Join(t.TempDir(), "p.yaml"), "session_api_key: abcdefgh")
	if l := load(t, src); len(l.Warnings) != 0 {
		t.Errorf("warnings about a private file: %v", l.Warnings)
	}
	if err := os.Chmod(src.File, 0o644); err != nil {
		t.Fatal(err)
	}
	if l := load(t, src); len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "chmod 600") {
		t.Errorf("warnings: %v", l.Warnings)
	}
}

func TestEndpoint(t *testing.T) {
	data := t.TempDir()
	writeFile(t, data+"/session-key", "from-file\n")
	tests := map[string]struct {
		environ  []string
		url, key string
	}{
		"default":         {nil, "http://127.0.0.1:3000", "from-file"},
		"wildcard listen": {[]string{"PARLEY_LISTEN=0.0.0.0:81"}, "http://127.0.0.1:81", "from-file"},
		"wildcard v6":     {[]string{"PARLEY_LISTEN=[::]:81"}, "http://[::1]:81", "from-file"},
		"own address":     {[]string{"PARLEY_LISTEN=192.0.2.1:81"}, "http://192.0.2.1:81", "from-file"},
		"session key":     {[]string{"SESSION_API_KEY=from-env"}, "http://127.0.0.1:3000", "from-env"},
		"local server":    {[]string{"PARLEY_SERVER=http://localhost:9/"}, "http://localhost:9", "from-file"},
		"given key":       {[]string{"PARLEY_SERVER=https://p.example/x", "PARLEY_API_KEY=given"}, "https://p.example/x", "given"},
		// A key of this machine must not travel to another one.
		"remote server": {[]string{"PARLEY_SERVER=https://p.example", "SESSION_API_KEY=from-env"}, "https://p.example", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := load(t, sources(t, append(test.environ, "PARLEY_DATA="+data)...)).Endpoint()
			if e.URL != test.url || e.Key.Reveal() != test.key {
				t.Errorf("got %s with key %q from %q", e.URL, e.Key.Reveal(), e.KeyFrom)
			}
			if e.KeyFrom == "" {
				t.Error("the key's origin is not explained")
			}
		})
	}
}

func TestEveryFieldHasAKey(t *testing.T) {
	fields := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if f.Type != reflect.TypeFor[config.Client]() {
			fields++
		}
	}
	fields += reflect.TypeFor[config.Client]().NumField()
	if keys := len(load(t, sources(t)).Settings); keys != fields {
		t.Errorf("%d keys for %d fields", keys, fields)
	}
}

func TestEveryServerKeyHasAFlagButSecrets(t *testing.T) {
	flags := parseFlags(t, config.ServerScope|config.ClientScope)
	for _, s := range load(t, sources(t)).Settings {
		name := strings.ReplaceAll(s.Key, "_", "-")
		if s.Key == "api_key" {
			name = "key"
		}
		if has := flags.Lookup(name) != nil; has == (s.Key == "session_api_key" || s.Key == "aws_bearer_token" || s.Key == "secret_key") {
			t.Errorf("--%s: has a flag: %v", name, has)
		}
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"
	if *update {
		if err := os.WriteFile(path, []byte(config.Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Reference(), string(have)); diff != "" {
		t.Errorf("docs/configuration.md is stale; run: go test ./internal/config -update\n%s", diff)
	}
}

func TestSuggest(t *testing.T) {
	words := []string{"listen", "log_level", "sandbox", "serve"}
	for word, want := range map[string]string{"lisen": "listen", "loglevel": "log_level", "server": "serve",
		"xyz": "", "": "", strings.Repeat("a", 1000): ""} {
		if got := config.Suggest(word, words); got != want {
			t.Errorf("Suggest(%.20q) = %q, want %q", word, got, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{"listen: 127.0.0.1:1", "cors_origins: [a, b]", "a: &x 1\nb: *x", "? [k]\n: v", "sandbox_memory: 1GiB\n---\n"} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "p.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Load(config.Sources{File: path, Environ: []string{"HOME=/h"}})
		if err != nil {
			return
		}
		if l.Config.LLMMaxAttempts < 1 || l.Config.SandboxMemory <= 0 || !filepath.IsAbs(l.Config.Data) {
			t.Errorf("an invalid configuration was accepted: %+v", l.Config)
		}
	})
}
