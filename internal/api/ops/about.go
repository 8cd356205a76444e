package ops

import (
	"cmp"
	"runtime"
	"sync/atomic"
	"time"
)

// ProtocolVersion is the version of the agent-server protocol that clients are
// told unless configured otherwise, so that they switch on what they can use.
// Some refuse to work unless it parses as x.y.z.
const ProtocolVersion = "1.43.1"

// AboutConfig makes an About.
type AboutConfig struct {
	Version         string   // of this program
	Commit          string   // git commit it was built from, "" = unknown
	ProtocolVersion string   // "" = ProtocolVersion
	Tools           []string // names of the tools agents can use
	Demo            bool
	Dir             string // of the data: its disk is told of; "" = the working directory
}

// About knows what /server_info tells.
type About struct {
	cfg     AboutConfig
	started time.Time
	active  atomic.Int64 // unix nanoseconds of the last activity
	meter   meter
}

// NewAbout starts the clock of uptime.
func NewAbout(cfg AboutConfig) *About {
	if cfg.ProtocolVersion == "" {
		cfg.ProtocolVersion = ProtocolVersion
	}
	a := &About{cfg: cfg, started: time.Now()}
	a.meter.dir, a.meter.looked = cmp.Or(cfg.Dir, "."), a.started
	a.Touch()
	return a
}

// Touch notes that somebody did something: idle_time starts again.
func (a *About) Touch() { a.active.Store(time.Now().UnixNano()) }

// info is agent protocol §1.2, with this program's own version beside the one it
// is compatible with.
type info struct {
	Uptime           int64     `json:"uptime"`    // seconds
	IdleTime         int64     `json:"idle_time"` // seconds
	Title            string    `json:"title"`
	Version          string    `json:"version"`
	SDKVersion       string    `json:"sdk_version"`
	ToolsVersion     string    `json:"tools_version"`
	WorkspaceVersion string    `json:"workspace_version"`
	ParleyVersion    string    `json:"parley_version"`
	BuildGitSHA      *string   `json:"build_git_sha"`
	BuildGitRef      *string   `json:"build_git_ref"`
	PythonVersion    *string   `json:"python_version"`
	GoVersion        string    `json:"go_version"`
	UsableTools      []string  `json:"usable_tools"`
	IdleTimeout      *int64    `json:"runtime_idle_timeout_seconds"`
	Capabilities     []string  `json:"capabilities"`
	MaxForeground    *int64    `json:"max_foreground_terminal_timeout_seconds"`
	Demo             bool      `json:"demo"`
	Docs             string    `json:"docs"`
	Redoc            string    `json:"redoc"`
	Resources        resources `json:"resources"`
}

// ServerInfo returns the body of /server_info.
func (a *About) ServerInfo() any {
	v := a.cfg.ProtocolVersion
	out := &info{
		Uptime:   int64(time.Since(a.started).Seconds()),
		IdleTime: int64(time.Since(time.Unix(0, a.active.Load())).Seconds()),
		Title:    "Parley", Version: v, SDKVersion: v, ToolsVersion: v, WorkspaceVersion: v,
		ParleyVersion: a.cfg.Version, GoVersion: runtime.Version(), UsableTools: a.cfg.Tools, Capabilities: []string{},
		Demo: a.cfg.Demo, Docs: "/docs", Redoc: "/docs",
		Resources: a.meter.measure(),
	}
	if out.UsableTools == nil {
		out.UsableTools = []string{}
	}
	if a.cfg.Commit != "" {
		out.BuildGitSHA = &a.cfg.Commit
	}
	return out
}
