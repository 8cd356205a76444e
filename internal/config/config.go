// Package config holds the one configuration of a Parley process and says where
// each value came from: defaults, then a file, then PARLEY_* variables, then
// flags. It is the only package that reads the process environment.
//
// It promises that a loaded Config is valid and that a key nobody knows is an
// error. It does not check what only the machine can tell (is the port free, is
// the disk full): that is for those who use the values.
package config

import (
	"log/slog"
	"time"

	"parley/internal/account"
	"parley/internal/sandbox"
)

// Values of Config.Sandbox.
const (
	SandboxAuto    = "auto"
	SandboxLocal   = "local"
	SandboxProcess = "process"
	SandboxDocker  = "docker"
	SandboxGVisor  = "gvisor"
)

// Values of Config.LogFormat.
const (
	LogText = "text"
	LogJSON = "json"
)

// Values of Config.HostDirectories.
const (
	HostDirsProof = "proof"
	HostDirsOff   = "off"
)

// Values of Config.Confirmation and Config.Browser.
const (
	ConfirmNothing = "none"
	ConfirmRisky   = "risky"
	ConfirmAll     = "all"
	BrowserAuto    = "auto"
	BrowserOff     = "off"
)

// Values of Config.RepositoryTrust.
const (
	TrustAsk    = "ask"
	TrustAlways = "always"
)

// Config is the effective configuration. docs/configuration.md is generated
// from its key table and says what each value does.
type Config struct {
	Listen    string // host:port
	Data      string // absolute path
	PublicURL string // without a trailing slash; "" = built from each request
	Demo      bool

	SessionAPIKey        account.Secret // unset = made at the first start
	SecretKey            account.Secret // what clients' secrets are encrypted with; unset = derived for the installation
	AgentProtocolVersion string         // x.y.z; "" = the one this build implements
	PreviewHost          string         // domain, lower case; "" = previews are below the public URL only
	PreviewSharedOrigin  bool
	CORSOrigins          []string      // scheme://host[:port], or "*"
	AllowedHosts         []string      // host names without port, lower case, or "*"
	RateLimit            int           // requests a second of one client address; 0 = no limit
	LegacyConversations  int           // of one user that run at a time; 0 = any number
	LegacyListAge        time.Duration // 0 = any age
	HostDirectories      string
	MaxBodyBytes         int64 // > 0
	MaxUploadBytes       int64 // > 0, of one file

	LogLevel  slog.Level
	LogFormat string

	Sandbox             string
	SandboxMemory       int64   // bytes, > 0
	SandboxProcesses    int64   // > 0
	SandboxOpenFiles    uint64  // > 0
	SandboxCPUs         float64 // of one core's time; 0 = all cores
	SandboxDisk         int64   // bytes, > 0
	SandboxInodes       int64   // > 0
	SandboxNetwork      sandbox.NetworkMode
	SandboxNetworkAllow []string      // see sandbox.Network.Allow
	SandboxImage        string        // container image of the docker backend's templates that name none
	SandboxSpecs        []SandboxSpec // none = one of the configured backend; see Templates
	SandboxRetention    time.Duration // 0 = for ever
	DockerHost          string        // address of the container engine; "" = the usual socket
	Runsc               string        // program; "" = runsc on PATH
	ImageRegistries     []string      // hosts beyond public ones, without TLS if on loopback
	ImageCredentials    string        // absolute path of a file in the form of ~/.docker/config.json; "" = none
	MaxSandboxes        int           // running at a time, > 0
	IdleTimeout         time.Duration // 0 = never

	Confirmation  string // least that waits for the user
	MaxIterations int    // steps of a run, where neither settings nor request say, >= 1
	MaxLogEvents  int64  // of a conversation, > 0
	MaxLogBytes   int64  // of a conversation, > 0
	Browser       string
	WebSearchURL  string // "" = Tavily's own

	RepositoryTrust  string
	SkillCollections []string // [org:|public:]name=location (package collection)
	MCPAllow         []string // hosts, host:port, networks, or "*" (package egress)

	WebhookAllowPrivate []string // hosts, host:port, networks, or "*" (package egress)

	LLMMaxAttempts int // >= 1
	LLMRetryMin    time.Duration
	LLMRetryMax    time.Duration // >= LLMRetryMin
	LLMTimeout     time.Duration // > 0
	LLMConcurrency int           // calls under way with one key, > 0
	LLMCatalog     string        // absolute path of a file over the shipped catalogue; "" = none
	LLMCAFile      string        // absolute path of further certificates to trust; "" = none
	AutoTitles     bool
	AWSCredentials bool           // the server's own may be used
	AWSBearerToken account.Secret // unset = none

	DailyBudget         float64 // of one user, USD, 0 = none
	UnpricedTaskTokens  int64   // where a ceiling in USD holds but the price is unknown; 0 = no ceiling
	UnpricedDailyTokens int64

	Client Client
}

// Client is what the commands that talk to a server need.
type Client struct {
	Server string         // base URL without a trailing slash; "" = the server Listen describes
	APIKey account.Secret // unset = SessionAPIKey or the data directory's key file
}

// Limits returns the sandbox limits.
func (c *Config) Limits() sandbox.Limits {
	return sandbox.Limits{CPUs: c.SandboxCPUs, MemoryBytes: c.SandboxMemory, Processes: c.SandboxProcesses,
		OpenFiles: c.SandboxOpenFiles, DiskBytes: c.SandboxDisk, Inodes: c.SandboxInodes}
}
