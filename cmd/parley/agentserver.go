package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"parley/internal/account"
	"parley/internal/app"
	"parley/internal/config"
)

const agentServerHelp = `Serve the agent-server protocol alone, at the root, for one directory: what SDKs and
UIs expect of a local agent server. Everything runs in one sandbox in which the
directory is mounted at its own path; nothing else of this machine is in it.

The key is taken from SESSION_API_KEY or OH_SESSION_API_KEYS_0, _1, ...; without
them the first start makes one and prints it. Clients send it as X-Session-API-Key.

These environment variables of other agent servers are understood as well:
OH_WEB_URL (as --public-url), OH_ALLOW_CORS_ORIGINS_0, ... (as --cors-origins),
OH_SECRET_KEY (as PARLEY_SECRET_KEY). Others that begin with OH_ are named in the log and have no effect.`

// agentServerFlags are what the command has beside the server's own flags.
type agentServerFlags struct {
	host, workspace string
	port            int
	open            bool
}

func (p *program) agentServerCommand() *cobra.Command {
	var f agentServerFlags
	c := &cobra.Command{
		Use: "agent-server", Short: "Serve the agent-server protocol for one directory", Args: cobra.NoArgs, Long: agentServerHelp,
		Example: "  parley agent-server --port 8000 --workspace .\n" +
			"  SESSION_API_KEY=... parley agent-server --host 0.0.0.0 --workspace /srv/project",
		RunE: func(c *cobra.Command, _ []string) error { return p.agentServer(c, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.host, "host", "127.0.0.1", "`address` to listen on")
	flags.IntVar(&f.port, "port", 8000, "`port` to listen on, 0 for any")
	flags.StringVar(&f.workspace, "workspace", "", "`directory` that the agent works in (default: workspace/project here, made if missing)")
	flags.BoolVar(&f.open, "no-auth", false, "ask for no key: whoever reaches the address, every account of this machine included, rules the sandbox")
	for _, name := range []string{"reload", "check-browser"} {
		flags.Bool(name, false, "accepted, and without effect")
	}
	for _, name := range []string{"import-modules", "extra-python-path"} {
		flags.String(name, "", "accepted, and without effect: tools are not Python modules")
	}
	config.AddFlags(flags, config.ServerScope)
	_ = flags.MarkHidden("listen") // host and port say it
	return c
}

func (p *program) agentServer(c *cobra.Command, f agentServerFlags) error {
	env := config.ParseEnv(p.env)
	if f.port < 0 || f.port > 65535 {
		return fmt.Errorf("--port %d is no port", f.port)
	}
	p.env = append(slices.Clone(p.env), translated(env)...)
	loaded, err := p.load(c)
	if err != nil {
		return failed(err)
	}
	mode, err := agentMode(env, f)
	if err != nil {
		return failed(err)
	}
	log := newLogger(p.err, loaded.Config)
	for _, warning := range append(loaded.Warnings, f.warnings(c, env)...) {
		log.Warn(warning)
	}
	cfg := loaded.Config
	cfg.Listen = net.JoinHostPort(f.host, strconv.Itoa(f.port))
	if loaded.Origin("data") == config.OriginDefault {
		sum := sha256.Sum256([]byte(mode.Workspace))
		cfg.Data = filepath.Join(cfg.Data, "agent-servers", filepath.Base(mode.Workspace)+"-"+hex.EncodeToString(sum[:4]))
	}
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT)
	defer stop()
	return failed(p.serveAgent(ctx, cfg, mode, p.out, log))
}

// agentMode reads what the flags and the environment of other agent servers say.
func agentMode(env config.Env, f agentServerFlags) (app.AgentMode, error) {
	mode := app.AgentMode{Open: f.open}
	for _, key := range append([]string{env["SESSION_API_KEY"]}, indexed(env, "OH_SESSION_API_KEYS")...) {
		if key == "" {
			continue
		}
		if err := config.CheckKey(key); err != nil {
			return mode, fmt.Errorf("a session key: %w", err)
		}
		mode.Keys = append(mode.Keys, account.NewSecret(key))
	}
	if f.open && len(mode.Keys) > 0 {
		return mode, errors.New("--no-auth together with a configured key: choose one")
	}
	dir := f.workspace
	if dir == "" {
		dir = filepath.Join("workspace", "project")
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the user's own working directory, as others make it
			return mode, err
		}
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return mode, fmt.Errorf("the workspace: %w", err)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return mode, fmt.Errorf("the workspace %s is not a directory", path)
	}
	mode.Workspace = path
	return mode, nil
}

// indexed returns the values of NAME_0, NAME_1, ... without a gap.
func indexed(env config.Env, name string) []string {
	var list []string
	for i := 0; ; i++ {
		value, ok := env[name+"_"+strconv.Itoa(i)]
		if !ok {
			return list
		}
		list = append(list, value)
	}
}

// translated are variables of other agent servers under the names of this server's;
// its own win.
func translated(env config.Env) []string {
	var list []string
	add := func(name, value string) {
		if _, ours := env[name]; !ours && value != "" {
			list = append(list, name+"="+value)
		}
	}
	add("PARLEY_PUBLIC_URL", env["OH_WEB_URL"])
	add("PARLEY_CORS_ORIGINS", strings.Join(indexed(env, "OH_ALLOW_CORS_ORIGINS"), ","))
	return list
}

// understood are the beginnings of variables that have an effect.
func understood() []string {
	return []string{"OH_SESSION_API_KEYS_", "OH_WEB_URL", "OH_ALLOW_CORS_ORIGINS_", "OH_SECRET_KEY"}
}

// warnings tell what has no effect.
func (f *agentServerFlags) warnings(c *cobra.Command, env config.Env) []string {
	var list []string
	for _, name := range []string{"reload", "check-browser", "import-modules", "extra-python-path"} {
		if c.Flags().Changed(name) {
			list = append(list, "--"+name+" has no effect")
		}
	}
	var names []string
	for name := range env {
		known := slices.ContainsFunc(understood(), func(known string) bool { return strings.HasPrefix(name, known) })
		if strings.HasPrefix(name, "OH_") && !known {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		list = append(list, "these variables have no effect: "+strings.Join(names, ", "))
	}
	if f.open {
		list = append(list, "no key is asked for: every account of this machine that reaches the address rules the sandbox")
	}
	return list
}
